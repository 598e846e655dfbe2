"""The end of an error message about an unknown name."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the known name that is nearest to a misspelt one; empty if none is near.

    Example:
        >>> did_you_mean("drop_path", ["drop_path_rate", "depths"])
        "; did you mean 'drop_path_rate'?"
    """
    nearest = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""
