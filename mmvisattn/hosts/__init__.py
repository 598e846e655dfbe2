"""What makes the mm stack run anywhere: mmcv's operators, safe checkpoints, launching, the doctor.

======================= ===============================================================================
module                  does
======================= ===============================================================================
mmcv_ops                stands in for mmcv's compiled operators where they are missing
checkpoint_safety       lets torch's safe loader read MMEngine checkpoints
scoped_bases            ``mmseg::`` bases on the maintained fork
launch                  ``train`` and ``test``, for both hosts, on CPU and GPU; the next rows serve it
command_line            what ``tools/train.py`` and ``tools/test.py`` share
earlier_runs            lets nothing of a process's earlier run reach the next
config_file             reads a config and the command-line options laid over it
precision               ``--amp``
distributed             ``--launcher``: several processes, also on the CPU
tta                     ``--tta``: test-time augmentation
prediction_outputs      ``--out``, ``--show``, ``--show-dir``
input_checks            finds faulty files and annotations before training starts
guarded_pipeline        names the image or label map that cannot be loaded
label_check             a hook that finds labels outside the classes
input_error             the error of all these, one sentence
doctor                  what is installed and what mends it
__main__                ``python -m mmvisattn.hosts SCRIPT``: a stock script with the first three in force
======================= ===============================================================================
"""


def prepare() -> None:
    """Put the operator stand-in and the other repairs in force; calling it again changes nothing.

    It must run before the first ``import mmcv.ops``, so before mmdet's or mmseg's models are imported. Configs do not
    call it: importing :mod:`mmvisattn.registry` does.
    """
    from mmvisattn.hosts import checkpoint_safety, mmcv_ops, scoped_bases

    mmcv_ops.install()
    checkpoint_safety.install()
    scoped_bases.install()
