"""A data pipeline that names the file it cannot load."""

from mmengine.dataset import Compose

from mmvisattn.hosts.input_error import InputError


class GuardedPipeline(Compose):
    """The transforms of a pipeline; a failure of a loading transform is told with the name of the file.

    Without it, a corrupt image ends as an assertion or an OpenCV error inside a worker process, some of which name no
    file, and a label map of another size than its image ends in a crop or a loss. Transforms that load nothing fail as
    they always did.

    Args:
        pipeline: The pipeline to guard; its transforms are shared, not copied.
    """

    def __init__(self, pipeline: Compose) -> None:
        self.transforms = pipeline.transforms

    def __call__(self, data: dict[str, object]) -> dict[str, object] | None:
        """Run the transforms on one image.

        Args:
            data: What the dataset knows of the image.

        Returns:
            What the last transform returns; None if one of them gave the image up.

        Raises:
            InputError: If a loading transform fails.
        """
        for transform in self.transforms:
            loads = type(transform).__name__.startswith("Load")
            data = load(transform, data) if loads else transform(data)
            if data is None:
                return None
        return data


def load(transform: object, data: dict[str, object]) -> dict[str, object] | None:
    """Run one loading transform.

    Args:
        transform: The transform.
        data: What is known of the image so far.

    Returns:
        What the transform returns.

    Raises:
        InputError: If it fails, or if it loads a label map that is not as large as the image file.
    """
    step, image, label_map = type(transform).__name__, data.get("img_path"), data.get("seg_map_path")
    beside = f" with the label map '{label_map}'" if label_map and "img" in data else ""
    try:
        data = transform(data)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{step} cannot read the image '{image}'{beside}: {reason}") from error
    if data is not None and "gt_seg_map" in data and "ori_shape" in data:
        label_shape, image_shape = tuple(data["gt_seg_map"].shape[:2]), tuple(data["ori_shape"])
        if label_shape != image_shape:
            raise InputError(
                f"the label map '{label_map}' has {label_shape} pixels (rows, columns), but its image '{image}' has "
                f"{image_shape}."
            )
    return data
