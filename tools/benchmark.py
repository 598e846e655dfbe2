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
from mmvisattn.analysis.benchmark.peers import PEERS


def size(text: str) -> tuple[int, int]:
    """Read HEIGHTxWIDTH."""
    height, width = text.lower().split("x")
    return int(height), int(width)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subject", choices=[*backbones.BACKBONES, "window_attention"])
    parser.add_argument("--sizes", type=size, nargs="+", default=[(800, 1344), (512, 512)], metavar="HxW")
    parser.add_argument("--against", nargs="+", metavar="LIBRARY", help="default: all that have the backbone")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed (default: %(default)s)")
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="images in a batch (default: 1)")
    parser.add_argument(
        "--dtype", choices=("float32", "float16", "bfloat16"), default="float32", help="of the op alone"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows of a backbone here too")
    return parser.parse_args()


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
    libraries = options.against or [peer.library for peer in PEERS[options.subject]]
    rows = []
    for batch in options.batch:
        rows += backbones.compare(options.subject, libraries, options.sizes, options.rounds, batch, options.device)
    print(backbones.table(rows))
    if options.json:
        options.json.write_text(backbones.to_json(rows) + "\n")


if __name__ == "__main__":
    main()
