"""What makes the mm stack run anywhere: mmcv's operators, safe checkpoints, launching, the doctor.

===================== =======================================================================================
module                does
===================== =======================================================================================
mmcv_ops              stands in for mmcv's compiled operators where they are missing
checkpoint_safety     lets torch's safe loader read MMEngine checkpoints
launch                ``train`` and ``test``, for both hosts, on CPU and GPU
config_file           reads a config and the command-line options laid over it
input_checks          finds faulty data before training starts; names the image that cannot be read
label_check           a hook that finds labels outside the classes
precision             ``--amp``
distributed           several processes, also on CPU
test_time_augmentation  ``--tta``
test_outputs          ``--out``, ``--show``, ``--show-dir``
doctor                what is installed and what mends it
__main__              ``python -m mmvisattn.hosts SCRIPT``: a stock script, with all of the above in force
===================== =======================================================================================
"""


def prepare() -> None:
    """Put the operator stand-in and the checkpoint allow-list in force; calling it again changes nothing.

    It must run before the first ``import mmcv.ops``, so before mmdet's or mmseg's models are imported. Configs do not
    call it: importing :mod:`mmvisattn.registry` does.
    """
    from mmvisattn.hosts import checkpoint_safety, mmcv_ops

    mmcv_ops.install()
    checkpoint_safety.install()
