"""Write a dataset of generated shapes, in COCO and in ADE20K layout.

python tools/make_shapes.py [ROOT] [--difficulty {quickstart,textured}] [--train-images N] [--val-images N]
                            [--image-size PIXELS] [--seed N]
"""

import argparse
import inspect
import sys

from mmvisattn.datasets.shapes import make_shapes
from mmvisattn.datasets.shapes.scene import DIFFICULTIES


def parse_arguments() -> argparse.Namespace:
    """The command line; defaults are those of ``make_shapes``."""
    default = {name: parameter.default for name, parameter in inspect.signature(make_shapes).parameters.items()}
    parser = argparse.ArgumentParser(
        description="Write a dataset of generated shapes.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("root", nargs="?", default="data/shapes", help="folder to write")
    parser.add_argument("--difficulty", choices=DIFFICULTIES, default=default["difficulty"], help="kind of pictures")
    parser.add_argument("--train-images", type=int, default=default["train_images"], metavar="N", help="how many")
    parser.add_argument("--val-images", type=int, default=default["val_images"], metavar="N", help="how many")
    parser.add_argument(
        "--image-size", type=int, default=default["image_size"], metavar="PIXELS", help="side of the images"
    )
    parser.add_argument("--seed", type=int, default=default["seed"], metavar="N", help="seed of the dataset")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        print(f"wrote {make_shapes(**vars(parse_arguments()))}")
    except (ValueError, FileExistsError) as error:
        sys.exit(f"make_shapes: {error}")
