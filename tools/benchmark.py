"""Compare our backbones with other libraries', after a correctness gate.

python tools/benchmark.py swin_tiny --sizes 800x1344 512x512 --against mmdet timm torchvision transformers
"""

import argparse
from pathlib import Path

import torch

import mmvisattn.registry  # noqa: F401  (mmdet imports mmcv's operators)
from mmvisattn.analysis.benchmark import backbones
from mmvisattn.analysis.benchmark.peers import PEERS


def size(text: str) -> tuple[int, int]:
    """Read HEIGHTxWIDTH."""
    height, width = text.lower().split("x")
    return int(height), int(width)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backbone", choices=list(backbones.BACKBONES))
    parser.add_argument("--sizes", type=size, nargs="+", default=[(800, 1344), (512, 512)], metavar="HxW")
    parser.add_argument("--against", nargs="+", metavar="LIBRARY", help="default: all that have the backbone")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=1, help="images in a batch (default: %(default)s)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here too")
    return parser.parse_args()


def main() -> None:
    """Measure and print the table."""
    options = parse_arguments()
    libraries = options.against or [peer.library for peer in PEERS[options.backbone]]
    rows = backbones.compare(options.backbone, libraries, options.sizes, options.rounds, options.batch, options.device)
    print(f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads, batch {options.batch}")
    print(backbones.table(rows))
    if options.json:
        options.json.write_text(backbones.to_json(rows) + "\n")


if __name__ == "__main__":
    main()
