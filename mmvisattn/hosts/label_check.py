"""A hook that finds a label outside the classes before the loss does.

On a GPU such a label ends in a device-side assertion without a name, and in an evaluation it is left out of the count.
"""

from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvisattn.hosts.input_error import InputError


def classification_head(model: nn.Module) -> nn.Module | None:
    """The head whose ``num_classes`` bounds the labels of the data; None if the model has none.

    Args:
        model: A detector or segmentor, possibly inside a data-parallel or a test-time-augmentation wrapper.
            Of a cascade, the first stage is taken.
    """
    while hasattr(model, "module"):
        model = model.module
    for owner, name in ((model, "decode_head"), (getattr(model, "roi_head", None), "bbox_head"), (model, "bbox_head")):
        head = getattr(owner, name, None)
        head = head[0] if isinstance(head, nn.ModuleList) else head
        if isinstance(getattr(head, "num_classes", None), int):
            return head
    return None


class LabelCheck(Hook):
    """Stops when a batch holds a label that is neither a class of the head nor its ``ignore_index``.

    Looks at every batch of training, validation and test where it is on the CPU already; it costs one pass over the
    labels. ``tools/train.py`` and ``tools/test.py`` add it; with other tools name it in ``custom_hooks``.
    """

    priority = "VERY_HIGH"

    def before_run(self, runner: Runner) -> None:
        """Look up the head.

        Args:
            runner: The runner.
        """
        self.head = classification_head(runner.model)

    def _before_iter(self, runner: Runner, batch_idx: int, data_batch: object = None, mode: str = "train") -> None:
        """Check one batch.

        Args:
            runner: The runner.
            batch_idx: Number of the batch in the epoch.
            data_batch: What the data loader gave: ``data_samples`` is a list with one entry per image.
            mode: ``'train'``, ``'val'`` or ``'test'``.

        Raises:
            InputError: If a label is outside the classes.
        """
        samples = data_batch.get("data_samples") if isinstance(data_batch, dict) else None
        if self.head is None or not isinstance(samples, (list, tuple)):
            return
        for sample in samples:
            self.check_sample(sample)

    def check_sample(self, sample: object) -> None:
        """Check the labels of one image.

        Args:
            sample: A data sample of the hosts, with ``gt_sem_seg`` (H, W) or ``gt_instances.labels`` (N,).

        Raises:
            InputError: If a label is outside the classes.
        """
        ignored = getattr(self.head, "ignore_index", None)
        if ignored is not None and "gt_sem_seg" in sample:
            labels, source = sample.gt_sem_seg.data, sample.get("seg_map_path")
        elif ignored is None and "gt_instances" in sample and "labels" in sample.gt_instances:
            labels, source = sample.gt_instances.labels, sample.get("img_path")
        else:
            return
        outside = labels >= self.head.num_classes
        if ignored is not None:
            outside &= labels != ignored
        if outside.any():
            raise InputError(describe(labels[outside], self.head.num_classes, ignored, source, sample))


def describe(labels: Tensor, num_classes: int, ignored: int | None, source: str | None, sample: object) -> str:
    """The sentence for labels outside the classes.

    Args:
        labels: The labels outside, (N,).
        num_classes: How many classes the head has.
        ignored: The label that is ignored, if there is one.
        source: The file the labels come from.
        sample: The data sample.
    """
    ignore = f" (and {ignored}, which is ignored)" if ignored is not None else ""
    shift = ", after reduce_zero_label," if sample.get("reduce_zero_label") else ""
    return (
        f"'{source}' holds the label {int(labels[0])}{shift} at {len(labels)} places, but the head has num_classes="
        f"{num_classes}: allowed are 0 to {num_classes - 1}{ignore}."
    )
