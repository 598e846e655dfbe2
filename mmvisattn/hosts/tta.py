"""``--tta``: test on the image and its mirror image, and merge the predictions.

``tta_model`` and ``tta_pipeline`` of the config are used where they exist. Where they do not, the host's own merging
model and a horizontal flip, derived from the test pipeline, take their place.
"""

from copy import deepcopy

from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log

from mmvisattn.hosts.input_error import InputError

# MMDetection registers its model without its scope
DEFAULT_TTA_MODEL = {
    "mmdet": dict(type="DetTTAModel", tta_cfg=dict(nms=dict(type="nms", iou_threshold=0.5), max_per_img=100)),
    "mmseg": dict(type="mmseg.SegTTAModel"),
}
# "flip" tells the merging model to turn the predictions back
FLIP_META_KEYS = ("flip", "flip_direction")


def enable_tta(cfg: Config) -> None:
    """Wrap the model in the merging model and replace the test pipeline.

    Args:
        cfg: The config; ``model`` and the pipeline of ``test_dataloader`` are changed.

    Raises:
        InputError: If neither the config has a ``tta_model`` nor the host one that can merge what this model predicts,
            or if no pipeline can be derived.
    """
    if cfg.get("tta_model") is None:
        cfg.tta_model = default_tta_model(cfg)
        print_log(f"--tta: the config has no tta_model; using {cfg.tta_model.type}.", logger="current")
    dataset = cfg.test_dataloader.dataset
    while "dataset" in dataset:
        dataset = dataset.dataset
    if cfg.get("tta_pipeline") is None:
        cfg.tta_pipeline = flip_pipeline(dataset.pipeline)
        print_log(
            "--tta: the config has no tta_pipeline; adding a horizontal flip to the test pipeline.", logger="current"
        )
    dataset.pipeline = cfg.tta_pipeline
    cfg.model = ConfigDict(**cfg.tta_model, module=cfg.model)


def default_tta_model(cfg: Config) -> ConfigDict:
    """The host's own merging model.

    Args:
        cfg: The config.

    Raises:
        InputError: If the model predicts masks and the host is MMDetection, whose ``DetTTAModel`` merges boxes only.
    """
    model = cfg.model
    if cfg.default_scope == "mmdet" and (model.get("roi_head", {}).get("mask_head") or model.get("mask_head")):
        raise InputError(
            "--tta needs a tta_model in the config, because this model predicts masks and MMDetection's DetTTAModel "
            "merges boxes only; to test the boxes alone, pass --cfg-options model.roi_head.mask_head=None "
            "test_evaluator.metric=bbox."
        )
    return ConfigDict(DEFAULT_TTA_MODEL[cfg.default_scope])


def flip_pipeline(pipeline: list[ConfigDict]) -> list[dict[str, object]]:
    """The test pipeline with a horizontal flip before packing.

    Annotations are loaded after the flip: the merged prediction is compared with them unflipped.

    Args:
        pipeline: The test pipeline; its last step packs the inputs.

    Returns:
        A pipeline whose last step is ``TestTimeAug`` with two views, the image itself first.

    Raises:
        InputError: If the last step does not pack, or the pipeline augments already.

    Example:
        >>> steps = flip_pipeline([dict(type="LoadImageFromFile"), dict(type="mmdet.PackDetInputs")])
        >>> [step["type"] for step in steps]
        ['LoadImageFromFile', 'TestTimeAug']
        >>> [view["prob"] for view in steps[1]["transforms"][0]]
        [0.0, 1.0]
    """
    *steps, pack = deepcopy(pipeline)
    kinds = [step["type"].rsplit(".", 1)[-1] for step in (*steps, pack)]
    if not kinds[-1].startswith("Pack") or "TestTimeAug" in kinds:
        raise InputError(
            f"--tta needs a tta_pipeline in the config: none can be derived from the test pipeline {', '.join(kinds)}."
        )
    if "meta_keys" in pack:
        pack["meta_keys"] = (*pack["meta_keys"], *(key for key in FLIP_META_KEYS if key not in pack["meta_keys"]))
    load_annotations = [step for step, kind in zip(steps, kinds, strict=False) if kind == "LoadAnnotations"]
    scope = pack["type"].rpartition(".")[0]
    flip = f"{scope}.RandomFlip" if scope else "RandomFlip"
    views = [dict(type=flip, prob=0.0, direction="horizontal"), dict(type=flip, prob=1.0, direction="horizontal")]
    stages = [views, *([step] for step in load_annotations), [pack]]
    return [*(step for step in steps if step not in load_annotations), dict(type="TestTimeAug", transforms=stages)]
