"""Sizes that are given as one number or as a pair."""


def as_pair(argument: str, size: int | tuple[int, int]) -> tuple[int, int]:
    """Return a size as (rows, columns).

    Args:
        argument: Name of the argument that holds the size, for the error message.
        size: One positive integer for both, or two of them.

    Raises:
        ValueError: If ``size`` is anything else.

    Example:
        >>> as_pair("window_size", 7)
        (7, 7)
    """
    pair = (size, size) if isinstance(size, int) else tuple(size) if isinstance(size, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(side, int) and side >= 1 for side in pair):
        raise ValueError(f"{argument} must be a positive integer or two of them, got {size!r}")
    return pair[0], pair[1]
