"""Test a detector or a segmentor.

    python tools/test.py CONFIG CHECKPOINT [--work-dir DIR] [--out FILE_OR_DIR] [--show] [--show-dir DIR]
                         [--wait-time SECONDS] [--tta] [--cfg-options KEY=VALUE ...]
                         [--launcher {none,pytorch,slurm,mpi}]

Several processes: tools/dist_test.sh.
"""

import argparse
import os
import sys

from mmengine.config import DictAction

from mmvisattn.hosts.launch import USER_ERRORS, test


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Test a detector or a segmentor.")
    parser.add_argument("config", help="config file; its default_scope, 'mmdet' or 'mmseg', chooses the host")
    parser.add_argument("checkpoint", help="checkpoint file or address")
    parser.add_argument("--work-dir", help="folder for the log and the scores (default: work_dirs/<config name>)")
    parser.add_argument(
        "--out",
        help="save the predictions: a detector into this .pkl file, a segmentor into this folder, as label maps",
    )
    parser.add_argument("--show", action="store_true", help="show painted images in a window")
    parser.add_argument(
        "--show-dir", help="save painted images here (a detector: below the run's folder, work_dir/timestamp)"
    )
    parser.add_argument("--wait-time", type=float, default=2.0, help="how long --show shows an image, in seconds")
    parser.add_argument("--tta", action="store_true", help="merge the predictions on the image and its mirror image")
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
    """Test as the command line says."""
    arguments = vars(parse_arguments())
    os.environ.setdefault("LOCAL_RANK", str(arguments.pop("local_rank")))
    try:
        test(**arguments)
    except USER_ERRORS as error:
        sys.exit(f"tools/test.py: error: {error}")


if __name__ == "__main__":
    main()
