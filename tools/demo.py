"""Generate images, train a small model on them in minutes, and show how well it sees.

    python tools/demo.py [--segment] [--against] [--iterations N] [--seed N] [--data DIR] [--work-dir DIR]

It trains a Mask R-CNN, or with --segment a UPerNet, with our Swin Transformer as backbone.
"""

import argparse
import sys
from pathlib import Path

from mmvisattn.analysis.demo import DETECTOR, SEGMENTOR, DemoOptions, run_demo


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    defaults = DemoOptions()
    parser = argparse.ArgumentParser(description="Train a small model on generated images and show what it sees.")
    parser.add_argument("--segment", action="store_true", help="train a segmentor (UPerNet) in place of a detector")
    parser.add_argument(
        "--against", action="store_true", help="train the host's own Swin too, at the same budget, and compare"
    )
    parser.add_argument("--iterations", type=int, metavar="N", help="length of the training (default: the config's)")
    parser.add_argument("--seed", type=int, default=defaults.seed, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--data", type=Path, default=defaults.data, metavar="DIR", help="generated images (default: %(default)s)"
    )
    parser.add_argument(
        "--work-dir", type=Path, default=defaults.work_dir, metavar="DIR", help="results (default: %(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse_arguments()
    options = DemoOptions(arguments.work_dir, arguments.data, arguments.against, arguments.iterations, arguments.seed)
    try:
        run_demo(SEGMENTOR if arguments.segment else DETECTOR, options, sys.stdout)
    except (ValueError, FileExistsError) as error:
        sys.exit(f"demo: {error}")
