"""Train a detector or a segmentor.

    python tools/train.py CONFIG [--work-dir DIR] [--amp] [--auto-scale-lr] [--resume [CHECKPOINT]]
                          [--cfg-options KEY=VALUE ...] [--launcher {none,pytorch,slurm,mpi}]

Several processes: tools/dist_train.sh, tools/slurm_train.sh.
"""

import argparse

from mmvisattn.hosts import command_line
from mmvisattn.hosts.launch import train


def main() -> None:
    """Train as the command line says."""
    parser = argparse.ArgumentParser(prog="tools/train.py", description="Train a detector or a segmentor.")
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
    command_line.run(parser, train)


if __name__ == "__main__":
    main()
