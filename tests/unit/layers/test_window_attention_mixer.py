import pytest
import torch

from mmvisattn.layers.token_mixers.window_attention import WindowAttention, crop_bias_table


def mixer(window_size=4, shifted=False, **options):
    torch.manual_seed(0)
    layer = WindowAttention(8, 2, window_size=window_size, shifted=shifted, **options).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


def image_map(height, width, seed=1):
    return torch.randn(2, height, width, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def attention_of_one_window(layer, x):
    """Plain self-attention over all tokens of a map as large as the window, written out with loops for the bias."""
    batch, height, width, channels = x.shape
    rows, columns = layer.window_size
    q, k, v = layer.qkv(x).view(batch, height * width, 3, 2, channels // 2).permute(2, 0, 3, 1, 4)
    logits = q @ k.transpose(-1, -2) * (channels // 2) ** -0.5
    for i in range(height * width):
        for j in range(height * width):
            row = i // width - j // width + rows - 1
            column = i % width - j % width + columns - 1
            logits[:, :, i, j] += layer.relative_position_bias_table[row * (2 * columns - 1) + column]
    mixed = (logits.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
    return layer.proj(mixed)


@pytest.mark.parametrize("window_size", [3, (2, 5)])
def test_one_window(window_size):
    layer = mixer(window_size)
    x = image_map(*layer.window_size)
    torch.testing.assert_close(layer(x), attention_of_one_window(layer, x), rtol=1e-10, atol=1e-10)


def test_windows_do_not_see_each_other_unless_shifted():
    x = image_map(8, 8)
    changed = x.clone()
    changed[:, :4, :4] += 1
    for shifted in (False, True):
        layer = mixer(shifted=shifted)
        differs = (layer(x) != layer(changed)).any(dim=(0, 3))
        assert differs[:4, :4].all()
        assert differs[4:, 4:].any() == shifted


def test_padded_positions_are_attended_with_the_qkv_bias():
    layer = mixer()
    x = image_map(3, 4)
    # what the official code does: pad the normalised map with zeros, then project
    padded = torch.cat([x, x.new_zeros(2, 1, 4, 8)], dim=1)
    torch.testing.assert_close(layer(x), layer(padded)[:, :3], rtol=1e-12, atol=1e-12)


def test_shrinking_a_map_of_one_window_only_drops_the_shift():
    x = image_map(4, 4)
    torch.testing.assert_close(mixer(shifted=True, small_map="shrink")(x), mixer(shifted=False)(x))
    assert not torch.allclose(mixer(shifted=True, small_map="pad")(x), mixer(shifted=False)(x))


def test_shrinking_a_smaller_map_makes_the_window_as_large_as_its_shorter_side():
    layer = mixer(shifted=True, small_map="shrink")
    small = mixer(2)
    small.load_state_dict(
        layer.state_dict()
        | {"relative_position_bias_table": crop_bias_table(layer.relative_position_bias_table, (4, 4), (2, 2)).detach()}
    )
    x = image_map(2, 6)
    torch.testing.assert_close(layer(x), small(x))


def test_shrinking_leaves_larger_maps_alone():
    x = image_map(5, 9)
    assert torch.equal(mixer(shifted=True, small_map="shrink")(x), mixer(shifted=True)(x))


def test_cropped_table_keeps_relative_positions():
    # a table that holds its own (row, column) offsets
    offsets = torch.stack(torch.meshgrid(torch.arange(-3, 4), torch.arange(-2, 3), indexing="ij"), dim=-1)
    cropped = crop_bias_table(offsets.view(-1, 2), (4, 3), (2, 3))
    assert torch.equal(cropped.view(3, 5, 2), offsets[2:5])


def test_without_bias_and_table():
    layer = mixer(qkv_bias=False, relative_position_bias=False)
    assert set(layer.state_dict()) == {"qkv.weight", "proj.weight", "proj.bias"}
    assert layer(image_map(3, 6)).shape == (2, 3, 6, 8)


def test_bad_options():
    with pytest.raises(ValueError, match="num_heads must divide the 8 channels, got 3"):
        WindowAttention(8, 3, window_size=4, shifted=False)
    with pytest.raises(ValueError, match="small_map must be one of .*'pad', 'shrink'.*, got 'crop'"):
        mixer(small_map="crop")
    with pytest.raises(ValueError, match="window_size"):
        mixer(window_size=0)
    with pytest.raises(ValueError, match="impl"):
        mixer(impl="fast")
