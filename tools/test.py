"""Test a detector or a segmentor.

    python tools/test.py CONFIG CHECKPOINT [--work-dir DIR] [--out FILE_OR_DIR] [--show] [--show-dir DIR]
                         [--wait-time SECONDS] [--tta] [--cfg-options KEY=VALUE ...]
                         [--launcher {none,pytorch,slurm,mpi}]

Several processes: tools/dist_test.sh.
"""

import argparse

from mmvisattn.hosts import command_line
from mmvisattn.hosts.launch import test


def main() -> None:
    """Test as the command line says."""
    parser = argparse.ArgumentParser(prog="tools/test.py", description="Test a detector or a segmentor.")
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
    command_line.run(parser, test)


if __name__ == "__main__":
    main()
