import pytest
import torch

from mmvisattn.layers.drop_path import DropPath, drop_path_rates


def test_drops_whole_images_and_scales_the_others():
    torch.manual_seed(0)
    y = DropPath(0.25)(torch.ones(400, 2, 3, 4))
    per_image = y.flatten(1)
    assert torch.equal(per_image.min(1).values, per_image.max(1).values)
    assert set(per_image[:, 0].tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    # 400 draws of probability 0.25: mean 100, deviation 8.7; five deviations
    assert 56 < (per_image[:, 0] == 0).sum() < 144


def test_images_are_independent_of_each_other_and_of_the_call():
    torch.manual_seed(0)
    drop, x = DropPath(0.5), torch.ones(64, 1)
    assert not torch.equal(drop(x), drop(x))


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.5, False)])
def test_nothing_to_do(rate, training):
    x = torch.randn(3, 2)
    assert DropPath(rate).train(training)(x) is x


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_keeps_the_dtype(dtype):
    assert DropPath(0.5)(torch.ones(2, 3, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5])
def test_rate_out_of_range(rate):
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        DropPath(rate)


def test_rates_rise_linearly_over_all_blocks():
    rates = drop_path_rates(0.3, (2, 2, 6, 2))
    assert [len(stage) for stage in rates] == [2, 2, 6, 2]
    flat = [rate for stage in rates for rate in stage]
    torch.testing.assert_close(torch.tensor(flat), torch.linspace(0, 0.3, 12))
    assert drop_path_rates(0.3, (1,)) == [[0.0]]
