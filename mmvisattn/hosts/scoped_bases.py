"""``_base_ = 'mmseg::...'`` on the maintained fork of MMSegmentation.

MMEngine finds the configs of a host through the name of its distribution, and knows MMSegmentation only as
``mmsegmentation``. The fork is called ``onedl-mmsegmentation``, so such a base ends in "mmsegmentation is not
installed"; MMDetection's module and distribution share a name, which is why ``mmdet::`` bases work.
"""

from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from mmengine.config.utils import MODULE2PACKAGE


def install() -> None:
    """Let MMEngine find MMSegmentation's configs by module where the distribution is not called ``mmsegmentation``.

    A config resolves its bases before its ``custom_imports``, so this helps in our tools and behind
    ``python -m mmvisattn.hosts``, not under a stock script alone.
    """
    try:
        distribution("mmsegmentation")
    except PackageNotFoundError:
        if find_spec("mmseg") is not None:
            MODULE2PACKAGE["mmseg"] = "mmseg"
