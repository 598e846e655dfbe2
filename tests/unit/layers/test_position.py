import pytest
import torch

from mmvisattn.layers.position import add_position_embedding, resize_position_embedding


def test_same_size_is_the_identity():
    embedding = torch.randn(1, 3, 4, 5)
    assert resize_position_embedding(embedding, (4, 5)) is embedding


def test_resized_as_the_official_code_does():
    embedding = torch.randn(1, 3, 4, 5)
    expected = torch.nn.functional.interpolate(embedding, size=(7, 3), mode="bicubic")
    assert torch.equal(resize_position_embedding(embedding, (7, 3)), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_computed_wide_and_returned_in_its_dtype(dtype):
    embedding = torch.randn(1, 3, 4, 5, dtype=dtype)
    resized = resize_position_embedding(embedding, (7, 3))
    assert resized.dtype == dtype
    wide = resize_position_embedding(embedding.double(), (7, 3))
    torch.testing.assert_close(resized, wide.to(dtype))


def test_rows_meet_rows():
    embedding = torch.arange(6.0).view(1, 1, 2, 3)
    x = torch.zeros(2, 2, 3, 1)
    assert torch.equal(add_position_embedding(x, embedding)[1, :, :, 0], embedding[0, 0])
