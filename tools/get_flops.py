"""Parameters, FLOPs and activations of a config: ``python tools/get_flops.py CONFIG --shape 800 1280``."""

import argparse
from pathlib import Path

from mmengine.config import Config, DictAction

from mmvisattn.analysis import cost


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="config file of a detector or segmentor")
    parser.add_argument(
        "--shape", type=int, nargs=2, default=(800, 1280), metavar=("H", "W"), help="image size in pixels"
    )
    parser.add_argument("--depth", type=int, default=1, help="how deep the table of modules goes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every module's cost here")
    parser.add_argument("--cfg-options", nargs="+", action=DictAction, help="key=value pairs laid over the config")
    return parser.parse_args()


def main() -> None:
    """Print the table of modules and, last, one line for the whole model."""
    arguments = parse_arguments()
    config = Config.fromfile(arguments.config)
    if arguments.cfg_options:
        config.merge_from_dict(arguments.cfg_options)
    result = cost.of_config(config, tuple(arguments.shape))
    if arguments.json:
        arguments.json.write_text(result.to_json())
    print(result.table(arguments.depth))
    print(result.summary())


if __name__ == "__main__":
    main()
