"""Compare our backbones with other libraries', or our window attention with other ways to write it.

python tools/benchmark.py swin_tiny --sizes 800x1344 512x512 --against mmdet timm torchvision transformers
python tools/benchmark.py window_attention --sizes 800x1344 512x512 --batch 1 8 --dtype float16 --rounds 30

Everything runs in one process, in turns, after a correctness gate. Figures above 1 mean that ours is faster or smaller.
"""

import argparse
from pathlib import Path

import torch

import mmvisattn.registry  # noqa: F401  (mmdet imports mmcv's operators)
from mmvisattn.analysis.benchmark import backbones, window_attention
from mmvisattn.analysis.benchmark.peers import PEERS, is_installed


def count(text: str) -> int:
    """Read a whole number, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more, got '{text}'")
    return int(text)


def size(text: str) -> tuple[int, int]:
    """Read HEIGHTxWIDTH, in pixels."""
    height, by, width = text.lower().partition("x")
    if not by:
        raise argparse.ArgumentTypeError(f"must be HEIGHTxWIDTH, such as 512x512, got '{text}'")
    return count(height), count(width)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subject", choices=[*backbones.BACKBONES, "window_attention"])
    parser.add_argument("--sizes", type=size, nargs="+", default=[(800, 1344), (512, 512)], metavar="HxW")
    parser.add_argument("--against", nargs="+", metavar="LIBRARY", help="default: all that are installed")
    parser.add_argument("--rounds", type=count, default=5, help="how often each is timed (default: %(default)s)")
    parser.add_argument("--batch", type=count, nargs="+", default=[1], help="images in a batch (default: 1)")
    parser.add_argument(
        "--dtype", choices=("float32", "float16", "bfloat16"), default="float32", help="of the op alone"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows of a backbone here too")
    options = parser.parse_args()
    known = [peer.library for peer in PEERS.get(options.subject, []) if is_installed(peer.library)]
    options.against = options.against or known
    if unknown := sorted(set(options.against) - set(known)):
        parser.error(f"argument --against: {options.subject} can be compared with {known} here, got {unknown}")
    return options


def main() -> None:
    """Measure and print the table."""
    options = parse_arguments()
    print(f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads")
    if options.subject == "window_attention":
        dtype = getattr(torch, options.dtype)
        cases = [
            case
            for batch in options.batch
            for image in options.sizes
            for case in window_attention.swin_tiny_cases(image, batch, dtype)
        ]
        print(window_attention.compare(cases, options.device, options.rounds))
        return
    rows = []
    for batch in options.batch:
        rows += backbones.compare(
            options.subject, options.against, options.sizes, options.rounds, batch, options.device
        )
    print(backbones.table(rows))
    if options.json:
        options.json.write_text(backbones.to_json(rows) + "\n")


if __name__ == "__main__":
    main()
