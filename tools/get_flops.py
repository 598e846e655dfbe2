"""Parameters, FLOPs and activations of a config: ``python tools/get_flops.py CONFIG --shape 800 1280``."""

import argparse
import sys
from pathlib import Path

from mmvisattn.analysis import cost
from mmvisattn.hosts.backbone_check import check_backbones
from mmvisattn.hosts.command_line import add_cfg_options
from mmvisattn.hosts.config_file import read_config
from mmvisattn.hosts.input_error import InputError


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="config file of a detector or segmentor")
    parser.add_argument(
        "--shape", type=int, nargs=2, default=(800, 1280), metavar=("H", "W"), help="image size in pixels"
    )
    parser.add_argument("--depth", type=int, default=1, help="how deep the table of modules goes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every module's cost here")
    add_cfg_options(parser)
    arguments = parser.parse_args()
    if min(arguments.shape) < 1:
        parser.error(f"argument --shape: H and W must be at least 1, got {arguments.shape}")
    return arguments


def main() -> None:
    """Print the table of modules and, last, one line for the whole model."""
    arguments = parse_arguments()
    try:
        config = read_config(arguments.config, arguments.cfg_options)
        check_backbones(config)
    except InputError as error:
        sys.exit(f"tools/get_flops.py: error: {error}")
    result = cost.of_config(config, tuple(arguments.shape))
    if arguments.json:
        arguments.json.write_text(result.to_json())
    print(result.table(arguments.depth))
    print(result.summary())


if __name__ == "__main__":
    main()
