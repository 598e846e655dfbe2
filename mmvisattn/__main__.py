"""The ``mmvisattn`` command: find and copy the configs that come with the package.

::

    mmvisattn configs list                 all of them
    mmvisattn configs path NAME            where one lies, for `_base_` or a training command
    mmvisattn configs copy NAME --to DIR   a copy with everything it inherits from
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mmvisattn import __version__
from mmvisattn.analysis import shipped_configs


def build_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = argparse.ArgumentParser(
        prog="mmvisattn", description="Vision-attention backbones for MMDetection and MMSegmentation."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    actions = commands.add_parser("configs", help="the configs that come with the package").add_subparsers(
        dest="action", required=True
    )
    actions.add_parser("list", help="print the name of every config")
    path = actions.add_parser("path", help="print where a config lies")
    copy = actions.add_parser("copy", help="copy a config with everything it inherits from, and print where it lies")
    for action in (path, copy):
        action.add_argument("name", metavar="NAME", help="as printed by list, or the file name alone")
    copy.add_argument("--to", metavar="DIR", type=Path, default=Path("configs"), help="default: %(default)s")
    copy.add_argument("--force", action="store_true", help="replace files that differ")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What follows ``mmvisattn`` on the command line; None = that of the process.

    Returns:
        Exit code: 0, or 1 with one sentence on standard error.
    """
    options = build_parser().parse_args(arguments)
    try:
        if options.action == "list":
            print("\n".join(shipped_configs.config_names()))
        elif options.action == "path":
            print(shipped_configs.config_path(options.name))
        else:
            print(shipped_configs.copy_config(options.name, options.to, options.force))
    except (ValueError, OSError) as error:
        print(f"mmvisattn: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
