import math

import pytest
import torch
import torch.nn.functional as F

from mmvisattn.layers.token_mixers.cosine_window_attention import CosineWindowAttention


def mixer(window_size=4, shifted=False, **options):
    torch.manual_seed(0)
    layer = CosineWindowAttention(8, 2, window_size=window_size, shifted=shifted, **options).double()
    for name, parameter in layer.named_parameters():
        if name != "logit_scale":
            torch.nn.init.normal_(parameter)
    return layer


def image_map(height, width, seed=1):
    return torch.randn(2, height, width, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def attention_of_one_window(layer, x):
    """Cosine attention over all tokens of a map as large as the window, written out with loops for the bias."""
    batch, height, width, channels = x.shape
    bias = torch.cat([layer.q_bias, torch.zeros(channels).double(), layer.v_bias])
    projected = x @ layer.qkv.weight.T + bias
    q, k, v = projected.view(batch, height * width, 3, 2, channels // 2).permute(2, 0, 3, 1, 4)
    logits = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2) * layer.logit_scale.exp()
    table = layer.cpb_mlp((height, width))
    for i in range(height * width):
        for j in range(height * width):
            row, column = i // width - j // width + height - 1, i % width - j % width + width - 1
            logits[:, :, i, j] += table[row * (2 * width - 1) + column]
    mixed = (logits.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
    return layer.proj(mixed)


@pytest.mark.parametrize("window_size", [3, (2, 5)])
def test_one_window(window_size):
    layer = mixer(window_size)
    x = image_map(*layer.window_size)
    torch.testing.assert_close(layer(x), attention_of_one_window(layer, x), rtol=1e-10, atol=1e-10)


def test_padded_positions_are_attended_with_the_bias_of_the_values():
    layer, x = mixer(), image_map(3, 4)
    padded = torch.cat([x, x.new_zeros(2, 1, 4, 8)], dim=1)  # what the hosts do: pad with zeros, then project
    torch.testing.assert_close(layer(x), layer(padded)[:, :3], rtol=1e-12, atol=1e-12)
    before = layer(x)
    torch.nn.init.zeros_(layer.v_bias)
    assert not torch.allclose(before, layer(x))


@pytest.mark.parametrize("pretrained", [0, 4])
def test_shrunken_window_computes_its_coordinates_anew(pretrained):
    large = mixer(shifted=True, small_map="shrink", pretrained_window_size=pretrained)
    small = mixer(window_size=3, pretrained_window_size=pretrained)
    small.load_state_dict(large.state_dict())
    x = image_map(3, 7)
    torch.testing.assert_close(large(x), small(x), rtol=1e-12, atol=1e-12)
    if pretrained:  # then a window of 3 uses the biases that a window of 4 has for the same offsets
        inner = large.cpb_mlp((4, 4)).view(7, 7, 2)[1:6, 1:6].reshape(25, 2)
        torch.testing.assert_close(large.cpb_mlp((3, 3)), inner, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("value", "moves"), [(math.log(100) - 1e-3, True), (10.0, False)])
def test_the_factor_is_at_most_100_and_does_not_learn_above(value, moves):
    layer, x = mixer(), image_map(5, 6)
    torch.nn.init.constant_(layer.logit_scale, value)
    layer(x).square().sum().backward()
    assert (layer.logit_scale.grad != 0).any() == moves
    if not moves:
        at_the_limit = mixer()
        torch.nn.init.constant_(at_the_limit.logit_scale, math.log(100))
        torch.testing.assert_close(layer(x), at_the_limit(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_with_a_zero_token_and_a_large_factor(dtype):
    layer = mixer(shifted=True)
    with torch.no_grad():
        layer.q_bias.zero_()
        layer.v_bias.zero_()
        layer.logit_scale.fill_(10.0)
    layer = layer.to(dtype)
    x = image_map(6, 7).to(dtype)
    x[:, 2, 3] = 0  # query, key and value of this token are zero
    x.requires_grad_()
    y = layer(x)
    y.float().square().mean().backward()
    assert y.dtype == dtype and y.isfinite().all() and x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    assert (layer.logit_scale.grad == 0).all()


def test_parts_that_can_be_left_out():
    plain = mixer(qkv_bias=False, relative_position_bias=False)
    assert set(plain.state_dict()) == {"qkv.weight", "proj.weight", "proj.bias", "logit_scale"}
    biased = mixer(relative_position_bias=False)
    with torch.no_grad():
        for parameter in (biased.q_bias, biased.v_bias):
            parameter.zero_()
    biased.load_state_dict(plain.state_dict(), strict=False)
    x = image_map(5, 6)
    torch.testing.assert_close(plain(x), biased(x), rtol=1e-12, atol=1e-12)


def test_initial_factor():
    torch.testing.assert_close(mixer().logit_scale.exp(), torch.full((2, 1, 1), 10.0).double())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(num_heads=3), "num_heads must divide the 8 channels, got 3"),
        (dict(small_map="crop"), "small_map must be one of"),
        (dict(impl="fast"), "impl must be one of"),
        (dict(window_size=(4, 0)), "window_size"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        CosineWindowAttention(8, **{"num_heads": 2, "window_size": 4, "shifted": False, **options})
