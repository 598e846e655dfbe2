import numpy as np
import pytest
import torch
from torch import nn

from mmvisattn.layers.patch_embed import PatchEmbed


def embed(in_channels=3, patch_size=4):
    return PatchEmbed(in_channels, 8, patch_size, nn.Identity())


@pytest.mark.parametrize(("height", "width"), [(8, 12), (9, 12), (1, 1), (3, 17)])
def test_every_patch_is_one_linear_map_of_its_pixels(height, width):
    layer = embed().double()
    image = torch.randn(2, 3, height, width, dtype=torch.float64)
    tokens = layer(image)
    rows, columns = -(-height // 4), -(-width // 4)
    assert tokens.shape == (2, rows, columns, 8)
    padded = image.new_zeros(2, 3, 4 * rows, 4 * columns)
    padded[:, :, :height, :width] = image
    last = padded[:, :, -4:, -4:].flatten(1) @ layer.proj.weight.flatten(1).T + layer.proj.bias
    torch.testing.assert_close(tokens[:, -1, -1], last)


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 4, 8, 8), (1, 3, 0, 8), (1, 8, 8, 3)])
def test_wrong_shape(shape):
    with pytest.raises(ValueError, match=r"image must have shape \(B, 3, H, W\)"):
        embed()(torch.zeros(shape))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64, torch.float16])
def test_wrong_dtype(dtype):
    with pytest.raises(TypeError, match="image must have the dtype of the weights, torch.float32"):
        embed()(torch.zeros(1, 3, 8, 8, dtype=dtype))


@pytest.mark.parametrize("image", [np.zeros((1, 3, 8, 8), dtype=np.float32), [torch.zeros(3, 8, 8)], None])
def test_no_tensor(image):
    with pytest.raises(TypeError, match=f"^image must be a tensor, got {type(image).__name__}$"):
        embed()(image)


def test_autocast_takes_any_floating_dtype():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert embed()(torch.zeros(1, 3, 8, 8)).dtype == torch.bfloat16
        assert embed()(torch.zeros(1, 3, 8, 8, dtype=torch.bfloat16)).dtype == torch.bfloat16
        with pytest.raises(TypeError, match="uint8"):
            embed()(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
