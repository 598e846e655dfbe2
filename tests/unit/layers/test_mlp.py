import pytest
import torch
from torch import nn

from mmvisattn.layers.mlp import Mlp, build_activation


def test_two_layers_with_the_activation_between():
    mlp = Mlp(4, 6, dict(type="ReLU"))
    x = torch.randn(2, 3, 5, 4)
    hidden = (x @ mlp.fc1.weight.T + mlp.fc1.bias).clamp(min=0)
    torch.testing.assert_close(mlp(x), hidden @ mlp.fc2.weight.T + mlp.fc2.bias)


def test_arguments_of_the_activation():
    assert build_activation(dict(type="GELU", approximate="tanh")).approximate == "tanh"
    assert isinstance(build_activation(dict(type="Swish")), nn.SiLU)


def test_unknown_activation():
    with pytest.raises(ValueError, match="act_cfg has type 'GLU2'.*'GELU'"):
        build_activation(dict(type="GLU2"))


def test_options_that_the_activation_refuses():
    for options in (dict(approximat="tanh"), dict(approximate=True)):
        with pytest.raises(TypeError, match="act_cfg cannot be .*'GELU'.*approximat"):
            build_activation(dict(type="GELU", **options))
