"""Stochastic depth: leave out the residual branch of a random part of the batch (Huang et al., 2016)."""

from collections.abc import Sequence

from torch import Tensor, nn


class DropPath(nn.Module):
    """Set a residual branch to zero for each image with a given probability, in training only.

    What is kept is divided by ``1 - rate``, so that the expected value stays the same.

    Args:
        rate: Probability that the branch of one image is dropped.

    Raises:
        ValueError: If ``rate`` is not in [0, 1).
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"drop path rate must be in [0, 1), got {rate}")
        self.rate = float(rate)

    def forward(self, x: Tensor) -> Tensor:
        """Drop whole images of ``x``, whose first axis is the batch."""
        if self.rate == 0 or not self.training:
            return x
        keep = 1 - self.rate
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        return x * mask.div_(keep)

    def extra_repr(self) -> str:
        """Return the rate, for ``print(model)``."""
        return f"rate={self.rate:g}"


def drop_path_rates(last_rate: float, depths: Sequence[int]) -> list[list[float]]:
    """Spread drop path rates linearly over all blocks of a backbone, from 0 to ``last_rate``.

    Args:
        last_rate: Rate of the last block.
        depths: Number of blocks in each stage.

    Returns:
        One list of rates per stage.

    Raises:
        ValueError: If ``last_rate`` is not in [0, 1).

    Example:
        >>> drop_path_rates(0.2, (1, 2))
        [[0.0], [0.1, 0.2]]
    """
    if not 0 <= last_rate < 1:
        raise ValueError(f"drop_path_rate must be in [0, 1), got {last_rate}")
    steps = max(sum(depths) - 1, 1)
    rates = iter([last_rate * block / steps for block in range(sum(depths))])
    return [[next(rates) for _ in range(depth)] for depth in depths]
