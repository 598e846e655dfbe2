"""Compile every shipped Triton kernel ahead of time, check what it uses, and refresh the records. Needs no GPU."""

import argparse
import sys
from pathlib import Path

from mmvisattn.analysis import kernel_resources
from mmvisattn.ops.window_attention.triton import tuner

DOCUMENT = Path(__file__).parents[1] / "docs" / "kernels.md"


def main() -> None:
    """Parse the arguments and compile, or tune."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="compile everything, not only what changed")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at a time")
    parser.add_argument(
        "--tune", action="store_true", help="time candidates on this machine's GPU and rewrite the configurations first"
    )
    arguments = parser.parse_args()
    if arguments.tune:
        tuner.tune(report=print)
    sys.exit(kernel_resources.make(DOCUMENT, jobs=arguments.jobs, everything=arguments.all, report=print))


if __name__ == "__main__":
    main()
