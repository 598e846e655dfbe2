"""The error for what a user can mend: a path, an option, an annotation, an image."""

from pathlib import Path


class InputError(ValueError):
    """One sentence that names the input, its value and what was expected.

    ``tools/train.py`` and ``tools/test.py`` print the sentence alone, without a traceback.

    Args:
        message: The sentence.

    Example:
        >>> str(InputError("config is 'a.py', which is not a file."))
        "config is 'a.py', which is not a file."
    """

    def __init__(self, message: str) -> None:
        # A data-loading worker sends an exception to the main process as "Caught InputError in DataLoader worker ...
        # <traceback> ...InputError: <sentence>"; only the sentence is kept.
        super().__init__(message.rsplit("InputError: ", 1)[-1].strip())


def check_is_file(argument: str, path: str) -> None:
    """Check that a file exists.

    Args:
        argument: What the user wrote its path in, for the sentence.
        path: The path.

    Raises:
        InputError: If there is no such file.
    """
    if not Path(path).is_file():
        raise InputError(f"{argument} is '{path}', which is not a file.")
