"""Nothing of an earlier run of the same process reaches the next: a notebook may train, then test, then train again.

A runner of MMEngine leaves its scope, logger, message hub and visualizer behind in the process, and the next runner
takes up the ones that bear the same name, settings and all: MMSegmentation's configs all call their visualizer
``'visualizer'``, so a test after a training would paint into the training's folder, or nowhere.
"""

from collections.abc import Iterator

from mmengine.utils import ManagerMixin


def forget_earlier_runs() -> None:
    """Drop what earlier runners registered for the whole process; what they hold themselves stays theirs.

    Example:
        >>> from mmengine.logging import MessageHub
        >>> hub = MessageHub.get_instance("run")
        >>> forget_earlier_runs()
        >>> MessageHub.get_instance("run") is hub
        False
    """
    for kind in with_subclasses(ManagerMixin):
        kind._instance_dict.clear()


def with_subclasses(kind: type) -> Iterator[type]:
    """Go through a class and all that inherit from it.

    Args:
        kind: The class.

    Example:
        >>> class Old: ...
        >>> class New(Old): ...
        >>> [kind.__name__ for kind in with_subclasses(Old)]
        ['Old', 'New']
    """
    yield kind
    for subclass in kind.__subclasses__():
        yield from with_subclasses(subclass)
