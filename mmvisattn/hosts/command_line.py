"""What command lines share: options laid over a config, the last options of train and test, and errors in words."""

import argparse
import os
import sys
from collections.abc import Callable

from mmengine.config import DictAction

from mmvisattn.checkpoints.read import CheckpointError
from mmvisattn.engine.contract import ContractError
from mmvisattn.hosts.input_error import InputError


def run(parser: argparse.ArgumentParser, function: Callable[..., object]) -> None:
    """Add the shared options to a command line, read it, and call a function with what it says.

    Faulty input ends the process with one sentence; any other error is a traceback.

    Args:
        parser: The command line; its ``prog`` opens the sentence.
        function: Takes each option as a keyword argument.
    """
    add_cfg_options(parser)
    parser.add_argument("--launcher", choices=["none", "pytorch", "slurm", "mpi"], default="none")
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0, help="set by torch.distributed.launch")
    arguments = vars(parser.parse_args())
    os.environ.setdefault("LOCAL_RANK", str(arguments.pop("local_rank")))
    try:
        function(**arguments)
    except (InputError, ContractError, CheckpointError) as error:
        sys.exit(f"{parser.prog}: error: {error}")


def add_cfg_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--cfg-options`` to a command line.

    Args:
        parser: The command line.
    """
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        action=DictAction,
        metavar="KEY=VALUE",
        help='change values of the config: model.backbone.with_cp=True key="[a,b]" key="[(a,b),(c,d)]"',
    )
