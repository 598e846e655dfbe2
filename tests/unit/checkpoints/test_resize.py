import pytest
import torch
import torch.nn.functional as F

from mmvisattn.checkpoints.resize import fit_positions, resize_bias_table


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_the_published_change_of_window():
    """169 rows of a window of 7 become 529 of a window of 12, head by head, as images of 13x13 and 23x23."""
    table = random(169, 3)
    resized = resize_bias_table(table, (12, 12))
    assert resized.shape == (529, 3)
    for head in range(3):
        image = F.interpolate(table[:, head].view(1, 1, 13, 13), size=(23, 23), mode="bicubic", align_corners=False)
        torch.testing.assert_close(resized[:, head].view(23, 23), image[0, 0])


def test_the_same_window_changes_nothing():
    table = random(169, 3)
    assert torch.equal(resize_bias_table(table, (7, 7)), table)


def test_rows_and_columns_of_a_window_that_is_not_square():
    """A table that depends on the row distance alone still does after resizing to 5x3 windows."""
    table = random(7).view(7, 1, 1).expand(7, 7, 2).reshape(49, 2)
    image = resize_bias_table(table, (5, 3)).view(9, 5, 2)
    assert (image - image[:, :1]).abs().max() < 1e-5  # float32 rounding of the bicubic weights' sum
    assert (image[1:] - image[:-1]).abs().max() > 0.1


def test_a_table_of_a_window_that_is_not_square_is_refused():
    with pytest.raises(ValueError, match="45 rows, since their window is not square"):
        resize_bias_table(torch.zeros(45, 2), (4, 4))


def test_half_precision_is_resized_in_float32():
    table = random(25, 2)
    resized = resize_bias_table(table.half(), (5, 5))
    assert resized.dtype == torch.float16
    torch.testing.assert_close(resized.float(), resize_bias_table(table.half().float(), (5, 5)), atol=2e-3, rtol=2e-3)


def test_fit_positions(swin):
    model = swin(window_size=(5, 4), position="relative+absolute", pretrain_img_size=(48, 64))
    table, grid = "stages.0.blocks.0.token_mixer.relative_position_bias_table", "absolute_pos_embed"
    tensors = {
        table: random(25, 2),
        grid: random(1, 8, 6, 6),
        "elsewhere": random(3),
        "patch_embed.norm.bias": random(4),
    }
    fitted, resized = fit_positions(tensors, model)
    assert resized == [table, grid]
    assert torch.equal(fitted[table], resize_bias_table(tensors[table], (5, 4)))
    expected = F.interpolate(tensors[grid], size=(12, 16), mode="bicubic", align_corners=False)
    torch.testing.assert_close(fitted[grid], expected)
    assert fitted["elsewhere"] is tensors["elsewhere"]
    assert fitted["patch_embed.norm.bias"].shape == (4,)  # not a position: another shape is for others to report
