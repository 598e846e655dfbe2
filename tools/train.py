"""Train a detector or a segmentor.

    python tools/train.py CONFIG [--work-dir DIR] [--amp] [--auto-scale-lr] [--resume [CHECKPOINT]]
                          [--cfg-options KEY=VALUE ...] [--launcher {none,pytorch,slurm,mpi}]

Several processes: tools/dist_train.sh, tools/slurm_train.sh.
"""

import argparse
import os
import sys

from mmengine.config import DictAction

from mmvisattn.hosts.launch import USER_ERRORS, train


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train a detector or a segmentor.")
    parser.add_argument("config", help="config file; its default_scope, 'mmdet' or 'mmseg', chooses the host")
    parser.add_argument("--work-dir", help="folder for logs and checkpoints (default: work_dirs/<config name>)")
    parser.add_argument("--amp", action="store_true", help="mixed precision: float16 on a GPU, bfloat16 on the CPU")
    parser.add_argument(
        "--auto-scale-lr", action="store_true", help="scale the learning rate to the total batch size in use"
    )
    parser.add_argument(
        "--resume",
        nargs="?",
        const="auto",
        metavar="CHECKPOINT",
        help="continue from this checkpoint; without a value, from the latest in the work dir",
    )
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        action=DictAction,
        metavar="KEY=VALUE",
        help='change values of the config: model.backbone.with_cp=True key="[a,b]" key="[(a,b),(c,d)]"',
    )
    parser.add_argument("--launcher", choices=["none", "pytorch", "slurm", "mpi"], default="none")
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0, help="set by torch.distributed.launch")
    return parser.parse_args()


def main() -> None:
    """Train as the command line says."""
    arguments = vars(parse_arguments())
    os.environ.setdefault("LOCAL_RANK", str(arguments.pop("local_rank")))
    try:
        train(**arguments)
    except USER_ERRORS as error:
        sys.exit(f"tools/train.py: error: {error}")


if __name__ == "__main__":
    main()
