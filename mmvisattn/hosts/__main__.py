"""``python -m mmvisattn.hosts SCRIPT ARGS...``: a stock script, with the operator stand-in in force from the start.

Most stock tools read their config, and with it ``mmvisattn.registry``, before they touch mmcv's operators and need no
help. MMDetection's ``tools/test.py`` imports ``mmcv.ops`` first and does::

    python -m mmvisattn.hosts path/to/mmdetection/tools/test.py CONFIG CHECKPOINT

SCRIPT is a path; the script sees its own name and arguments, and its folder in front of ``sys.path``, as with
``python SCRIPT ARGS...``.
"""

import runpy
import sys
from pathlib import Path

from mmvisattn.hosts import prepare


def main() -> None:
    """Run the script named on the command line."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit("usage: python -m mmvisattn.hosts SCRIPT [ARGS...]")
    script = Path(sys.argv[1])
    if not script.is_file():
        sys.exit(f"python -m mmvisattn.hosts: error: SCRIPT is '{script}', which is not a file.")
    sys.argv = sys.argv[1:]
    sys.path[0] = str(script.resolve().parent)
    prepare()
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
