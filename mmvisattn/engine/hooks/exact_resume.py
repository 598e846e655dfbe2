"""Interrupted training that continues exactly as if it had not been interrupted.

MMEngine resumes weights, optimizer, schedules and the seed, but not the *states* of the random generators, so drop
path, augmentations and sampled regions differ after an interruption. This hook keeps the states in the checkpoint.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial

import numpy
import torch
from mmengine.dist import all_gather_object, get_rank, get_world_size
from mmengine.hooks import CheckpointHook, Hook
from mmengine.runner import EpochBasedTrainLoop, IterBasedTrainLoop, Runner

KEY = "generator_states"  # in the checkpoint: a list with one entry per process

GeneratorStates = dict[str, object]


def generator_states() -> GeneratorStates:
    """The states of this process's generators: ``random``, ``numpy.random``, torch's on the CPU and on the GPU in use.

    Tensors, numbers and tuples only, so that torch's safe loader reads them.
    """
    algorithm, keys, position, has_gauss, gauss = numpy.random.get_state()
    states: GeneratorStates = {
        "python": random.getstate(),
        "numpy": (algorithm, torch.from_numpy(keys.astype(numpy.int64)), position, has_gauss, gauss),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def set_generator_states(states: GeneratorStates) -> None:
    """Put generators into the states that :func:`generator_states` returned.

    Args:
        states: The states. A checkpoint from a GPU resumed without one leaves ``cuda`` aside.
    """
    algorithm, keys, *rest = states["numpy"]
    random.setstate(states["python"])
    numpy.random.set_state((algorithm, keys.cpu().numpy().astype(numpy.uint32), *rest))
    torch.set_rng_state(states["torch"].cpu())
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"].cpu())


def seed_worker(worker_id: int, rank: int, num_workers: int) -> None:
    """Seed a data-loading worker from the loader's base seed, which the main process's generator draws anew each epoch.

    MMEngine seeds workers with the run's seed alone, so workers that start again each epoch repeat their augmentations,
    and workers that live on cannot be resumed.

    Args:
        worker_id: Number of the worker; torch has added it to the seed already.
        rank: Number of the process.
        num_workers: Workers per process.
    """
    seed = (torch.initial_seed() + rank * num_workers) % 2**32
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


class RestoreAfterReplay:
    """A data iterator that restores the generators after a number of batches.

    MMEngine's iteration loop resumes by loading, and throwing away, every batch it has trained on. That brings the
    generators of the workers to where they were; with ``num_workers=0`` it draws from those of the training process.

    Args:
        iterator: The loop's iterator.
        replayed: How many batches are thrown away.
        restore: Called once, after the last of them.
    """

    def __init__(self, iterator: Iterator[object], replayed: int, restore: Callable[[], None]) -> None:
        self.iterator = iterator
        self.remaining = replayed
        self.restore = restore

    def __iter__(self) -> "RestoreAfterReplay":
        """The iterator itself."""
        return self

    def __next__(self) -> object:
        """The next batch."""
        batch = next(self.iterator)
        self.remaining -= 1
        if self.remaining == 0:
            self.restore()
        return batch

    def skip_iter(self, count: int) -> None:
        """Throw batches away; the maintained fork's loop asks for it, and would by itself not load them.

        Args:
            count: How many.
        """
        for _ in range(count):
            next(self)


class ExactResume(Hook):
    """Makes ``--resume`` bit-equal on the CPU, for epoch loops and for iteration loops.

    The states of ``random``, ``numpy.random``, torch's CPU generator and the GPU's in use, of every process, go into
    each checkpoint that is written at the end of an epoch (of an iteration, in iteration loops) and are restored before
    the first batch. Validation is made neutral: the generators leave it as they entered it, so that a run that
    validates after writing a checkpoint equals one that resumes from it. In epoch loops data-loading workers start anew
    each epoch, also with ``persistent_workers=True``, because the generators of a living worker cannot be saved; that
    costs their start-up time per epoch.

    Needs a fixed seed, ``randomness=dict(seed=...)``, for the order of the data. Bit-equality needs the same number of
    processes and workers, the same machine and the same libraries; on a GPU also ``randomness.deterministic=True``.
    """

    # before CheckpointHook (VERY_LOW) writes
    priority = "NORMAL"

    def __init__(self) -> None:
        self.loaded: list[GeneratorStates] | None = None
        self.to_save: list[GeneratorStates] | None = None
        self.before_validation: GeneratorStates | None = None

    def before_run(self, runner: Runner) -> None:
        """Check that the order of the data can be repeated.

        Args:
            runner: The runner.

        Raises:
            ValueError: If the config has no seed, or tells the loop not to return to where the data was.
        """
        if runner.cfg.get("randomness", {}).get("seed") is None:
            raise ValueError(
                "ExactResume needs a fixed seed, but randomness.seed is not set in the config; set "
                "randomness=dict(seed=0), or any other integer."
            )
        if (runner.cfg.get("train_cfg") or {}).get("fast_forward_on_resume"):
            raise ValueError("ExactResume needs train_cfg.fast_forward_on_resume to be False, got True.")

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, object]) -> None:
        """Keep the states until training starts.

        Args:
            runner: The runner.
            checkpoint: The checkpoint; one that is not resumed from is ignored in :meth:`before_train`.
        """
        self.loaded = checkpoint.get(KEY)

    def before_train(self, runner: Runner) -> None:
        """Restore the states when training continues.

        Args:
            runner: The runner.
        """
        loop = runner.train_loop
        if isinstance(loop, EpochBasedTrainLoop):
            workers = loop.dataloader.num_workers
            loop.dataloader.worker_init_fn = partial(seed_worker, rank=get_rank(), num_workers=workers)
        if runner.iter == 0:
            return
        if self.loaded is None or len(self.loaded) != get_world_size():
            found = "no generator states" if self.loaded is None else f"those of {len(self.loaded)} processes"
            runner.logger.warning(
                f"ExactResume: the checkpoint holds {found}, this run has {get_world_size()}; training continues, but "
                "not exactly as it would have."
            )
            return
        states = self.loaded[get_rank()]
        if isinstance(loop, IterBasedTrainLoop):
            loop.dataloader_iterator = RestoreAfterReplay(
                loop.dataloader_iterator, runner.iter, lambda: set_generator_states(states)
            )
        else:
            set_generator_states(states)

    def before_train_epoch(self, runner: Runner) -> None:
        """Let the workers of the last epoch go, so that new ones are seeded.

        Args:
            runner: The runner.
        """
        if isinstance(runner.train_loop, EpochBasedTrainLoop):
            runner.train_dataloader._iterator = None  # where torch keeps persistent workers; it has no public name

    def after_train_epoch(self, runner: Runner) -> None:
        """Collect the states of all processes.

        Args:
            runner: The runner.
        """
        self.to_save = all_gather_object(generator_states())

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: object = None, outputs: dict[str, object] | None = None
    ) -> None:
        """Collect the states of all processes when a checkpoint is written after this iteration.

        Args:
            runner: The runner.
            batch_idx: Number of the batch.
            data_batch: The batch.
            outputs: The losses.
        """
        writers = [hook for hook in runner.hooks if isinstance(hook, CheckpointHook) and not hook.by_epoch]
        due = any(self.every_n_train_iters(runner, hook.interval, hook.save_begin) for hook in writers)
        if due or (writers and self.is_last_train_iter(runner)):
            self.to_save = all_gather_object(generator_states())

    def before_val(self, runner: Runner) -> None:
        """Keep the states, for a checkpoint written while validating and for afterwards.

        Args:
            runner: The runner.
        """
        self.before_validation = generator_states()
        self.to_save = all_gather_object(self.before_validation)

    def after_val(self, runner: Runner) -> None:
        """Leave validation with the states it was entered with.

        Args:
            runner: The runner.
        """
        set_generator_states(self.before_validation)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, object]) -> None:
        """Add the states to a checkpoint; called in the process that writes it.

        Args:
            runner: The runner.
            checkpoint: The checkpoint.
        """
        if self.to_save is not None:
            checkpoint[KEY] = self.to_save
