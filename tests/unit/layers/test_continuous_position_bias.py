import copy
import math
import pickle

import pytest
import torch

from mmvisattn.layers.continuous_position_bias import ContinuousPositionBias, log_spaced_coordinates


def network(pretrained_window_size=0, seed=0):
    torch.manual_seed(seed)
    return ContinuousPositionBias(3, pretrained_window_size).double()


@pytest.mark.parametrize(("pretrained", "divisors"), [(0, (4, 2)), (7, (6, 6)), (2, (1, 1)), (1, (1, 1))])
def test_coordinates(pretrained, divisors):
    """Section 3.3 of the paper, and the official code's scale: sign(8x) log2(|8x| + 1) / log2(8)."""
    coordinates = log_spaced_coordinates((5, 3), pretrained, torch.zeros(1, dtype=torch.float64))
    assert coordinates.shape == (9 * 5, 2)
    for row in range(9):
        for column in range(5):
            for axis, offset in enumerate((row - 4, column - 2)):
                scaled = 8 * offset / divisors[axis]
                expected = math.copysign(math.log2(abs(scaled) + 1) / 3, scaled)
                assert coordinates[row * 5 + column, axis].item() == pytest.approx(expected, abs=1e-14)


def test_one_token_has_the_coordinate_zero():
    assert torch.equal(log_spaced_coordinates((1, 1), 0, torch.zeros(1)), torch.zeros(1, 2))
    assert network()((1, 4)).isfinite().all()


def test_a_larger_window_extends_the_biases_of_the_trained_one():
    small, large = network()((4, 4)), network(pretrained_window_size=4)((6, 6))
    middle = large.view(11, 11, 3)[2:9, 2:9].reshape(49, 3)
    torch.testing.assert_close(middle, small, rtol=1e-12, atol=0)


def test_biases_are_between_0_and_16():
    layer = network()
    torch.nn.init.normal_(layer[2].weight, std=20.0)
    table = layer((4, 4))
    assert table.min() >= 0 and table.max() <= 16 and table.max() - table.min() > 10


def test_only_the_network_is_stored():
    assert set(network().state_dict()) == {"0.weight", "0.bias", "2.weight"}
    assert network()[2].weight.shape == (3, 512)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float32_in_low_precision(dtype):
    layer = network().to(dtype)
    exact = copy.deepcopy(layer).double()((8, 8))
    for table in (layer((8, 8)), layer.requires_grad_(False)((8, 8))):
        assert table.dtype == torch.float32
        assert (table - exact).abs().max() < 1e-4  # values of size 8 after sums of 512 terms in float32
    with torch.autocast("cpu", dtype=dtype):
        assert (layer.float()((8, 8)) - exact).abs().max() < 1e-4


def add_through_data(layer):
    layer[0].bias.data.add_(1)  # how moving averages are exchanged with the weights; no version counter sees it


def add_in_place(layer):
    with torch.no_grad():
        layer[2].weight.add_(1)


def load(layer):
    layer.load_state_dict(network(seed=1).state_dict())


def load_and_assign(layer):
    layer.load_state_dict(network(seed=1).state_dict(), assign=True)


def take_a_step(layer):
    layer((4, 4)).sum().backward()
    torch.optim.SGD(layer.parameters(), lr=1.0).step()


def replace_a_parameter(layer):
    layer[2].weight = torch.nn.Parameter(layer[2].weight.detach() + 1)


@pytest.mark.parametrize(
    "change", [add_through_data, add_in_place, load, load_and_assign, take_a_step, replace_a_parameter]
)
def test_a_kept_table_follows_the_weights(change):
    layer = network().eval()
    with torch.no_grad():
        before = layer((4, 4)).clone()
        assert layer((4, 4)) is layer((4, 4)), "nothing has changed: the same table serves again"
    change(layer)
    with torch.no_grad():
        after = layer((4, 4))
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, layer((4, 4)).detach(), rtol=0, atol=0)  # computed, since gradients are wanted


def test_a_kept_table_follows_dtype_and_window():
    layer = network().requires_grad_(False)
    assert layer((4, 4)).dtype == torch.float64 and layer.float()((4, 4)).dtype == torch.float32
    assert [len(layer(window)) for window in ((4, 4), (2, 4), (4, 2), (4, 4))] == [49, 21, 21, 49]
    assert not torch.equal(layer((2, 4)), layer((4, 2)))


def test_copies_keep_tables_of_their_own():
    layer = network().eval()
    with torch.no_grad():
        table = layer((4, 4))
        for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert torch.equal(twin((4, 4)), table)
            twin[0].bias.data.add_(1)
            assert not torch.equal(twin((4, 4)), table) and layer((4, 4)) is table


def test_gradients_after_a_table_was_kept():
    layer = network()
    with torch.inference_mode():
        layer((4, 4))
    layer((4, 4)).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in layer.parameters())
    # frozen: the table, kept in inference mode, takes part in a computation that has gradients
    layer.requires_grad_(False)
    with torch.inference_mode():
        layer((4, 4))
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (layer((4, 4)) * weight).sum().backward()
    assert weight.grad.abs().sum() > 0
