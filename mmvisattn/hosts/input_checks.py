"""Finds faulty data before training starts, and says in one sentence what is wrong with it.

Files are looked for before the model is built. Annotations are read by the host, once; only when the host fails on
them, or makes of them a dataset that cannot be trained on, are they read a second time, to find out why.
"""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

from mmengine.config import ConfigDict
from mmengine.dataset import BaseDataset
from mmengine.fileio import list_dir_or_file
from mmengine.logging import print_log
from mmengine.registry import DATASETS, DefaultScope
from torch import nn

from mmvisattn.hosts.guarded_pipeline import GuardedPipeline
from mmvisattn.hosts.input_error import InputError
from mmvisattn.hosts.label_check import classification_head


def leaf_configs(dataset: ConfigDict) -> Iterator[ConfigDict]:
    """The configs of the datasets that read files, inside whatever wraps them (repeating, concatenating, mixing).

    Args:
        dataset: The ``dataset`` of a data loader.
    """
    inner = [dataset["dataset"]] if "dataset" in dataset else dataset.get("datasets", [])
    if not inner:
        yield dataset
    for config in inner:
        yield from leaf_configs(config)


def leaf_datasets(dataset: object) -> Iterator[BaseDataset]:
    """The built datasets that read files, inside whatever wraps them.

    Args:
        dataset: The dataset of a data loader.
    """
    if isinstance(dataset, BaseDataset):
        yield dataset
    for name in ("dataset", "_dataset"):
        if hasattr(dataset, name):
            yield from leaf_datasets(getattr(dataset, name))
    for inner in getattr(dataset, "datasets", ()):
        yield from leaf_datasets(inner)


def unread_dataset(config: ConfigDict, scope: str) -> BaseDataset | None:
    """A dataset with its paths and classes resolved, but nothing read; None where that is not possible.

    Args:
        config: Config of a dataset that reads files.
        scope: The config's ``default_scope``.
    """
    if config.get("backend_args"):
        return None  # not on this machine's disk
    with DefaultScope.overwrite_default_scope(scope):
        kind = DATASETS.get(config["type"])
        if kind is None or not issubclass(kind, BaseDataset):
            return None
        try:
            return DATASETS.build({**config, "pipeline": [], "lazy_init": True})
        except TypeError:  # a dataset of the user's own, without lazy_init
            return None


def check_paths(loader: ConfigDict | None, scope: str) -> None:
    """Check that the files and folders a data loader will read exist.

    Args:
        loader: A data loader of the config, or None.
        scope: The config's ``default_scope``.

    Raises:
        InputError: If an annotation file is missing or empty, or a folder is missing.
    """
    for config in leaf_configs(loader["dataset"]) if loader else ():
        dataset = unread_dataset(config, scope)
        if dataset is None:
            continue
        if dataset.ann_file and not Path(dataset.ann_file).exists():
            raise InputError(f"ann_file is '{dataset.ann_file}', which does not exist.")
        if dataset.ann_file and Path(dataset.ann_file).is_file() and Path(dataset.ann_file).stat().st_size == 0:
            raise InputError(f"ann_file is '{dataset.ann_file}', which is empty.")
        for name, folder in dataset.data_prefix.items():
            if folder and not Path(folder).is_dir():
                raise InputError(f"data_prefix.{name} is '{folder}', which is not a folder.")


def explain(loader: ConfigDict, scope: str) -> str | None:
    """Why the host cannot make a dataset from the annotations, in one sentence; None if no reason is found.

    Args:
        loader: A data loader of the config.
        scope: The config's ``default_scope``.
    """
    for config in leaf_configs(loader["dataset"]):
        dataset = unread_dataset(config, scope)
        if dataset is None:
            continue
        if hasattr(dataset, "img_suffix") and not dataset.ann_file:
            folder = dataset.data_prefix["img_path"]
            if not any(list_dir_or_file(folder, list_dir=False, suffix=dataset.img_suffix, recursive=True)):
                return f"data_prefix.img_path is '{folder}', which holds no '*{dataset.img_suffix}' image."
        elif Path(dataset.ann_file).suffix == ".json":
            reason = explain_coco(dataset.ann_file, dataset.metainfo.get("classes") or ())
            if reason:
                return reason
    return None


def explain_coco(path: str, classes: tuple[str, ...]) -> str | None:
    """What is wrong with an annotation file in the COCO layout, in one sentence; None if nothing is found.

    Args:
        path: The file.
        classes: The classes of the dataset.
    """
    try:
        content = json.loads(Path(path).read_text())
    except ValueError as error:
        return f"ann_file is '{path}', which is not valid JSON: {error}."
    for key in ("images", "annotations", "categories"):
        if not isinstance(content, dict) or not content.get(key):
            return f"ann_file is '{path}', which has no '{key}'."
    names = {category["id"]: category["name"] for category in content["categories"]}
    unknown = [name for name in classes if name not in names.values()]
    if unknown:
        return (
            f"metainfo.classes has {', '.join(map(repr, unknown))}, but the categories of '{path}' are "
            f"{', '.join(map(repr, names.values()))}."
        )
    for annotation in content["annotations"]:
        missing = [key for key in ("image_id", "category_id", "bbox", "area") if key not in annotation]
        if missing:
            return f"annotation {annotation.get('id')} in '{path}' has no '{missing[0]}'."
        if annotation["category_id"] not in names:
            return (
                f"annotation {annotation.get('id')} in '{path}' has category_id {annotation['category_id']}, which is "
                f"not among its categories {sorted(names)}."
            )
    if not any(names[annotation["category_id"]] in classes for annotation in content["annotations"]):
        return f"ann_file is '{path}', which has no object of the classes {', '.join(map(repr, classes))}."
    return None


def check_dataset(dataset: object, model: nn.Module, loader: ConfigDict, scope: str) -> None:
    """Check a dataset that the host has read, and guard its pipelines.

    Args:
        dataset: The dataset of a built data loader.
        model: The detector or segmentor.
        loader: The data loader's config.
        scope: The config's ``default_scope``.

    Raises:
        InputError: If there is nothing to read, categories and classes disagree, or the model has fewer classes than
            the dataset.
    """
    for leaf in leaf_datasets(dataset):
        classes = leaf.metainfo.get("classes") or ()
        coco_ids = getattr(leaf, "cat_ids", None)
        used_ids = {category for category, images in getattr(leaf, "cat_img_map", {}).items() if images}
        nothing_left = len(leaf) == 0 or (coco_ids is not None and not used_ids & set(coco_ids))
        unmatched = coco_ids is not None and len(coco_ids) != len(classes)
        undeclared = coco_ids is not None and bool(used_ids - set(coco_ids))
        if (nothing_left and not leaf.test_mode) or unmatched or undeclared:
            reason = explain(loader, scope)
            if reason:
                raise InputError(reason)
        if len(leaf) == 0:
            raise InputError(
                f"{type(leaf).__name__} has no image left after filtering by filter_cfg={leaf.filter_cfg}."
            )
        check_classes(classes, model, type(leaf).__name__)
        leaf.pipeline = GuardedPipeline(leaf.pipeline)


def check_classes(classes: tuple[str, ...], model: nn.Module, dataset: str) -> None:
    """Compare the classes of a dataset with ``num_classes`` of the model's head.

    More classes in the head than in the dataset are told in the log and not refused: open-vocabulary detectors have
    them by design.

    Args:
        classes: The classes of the dataset; empty = unknown.
        model: The detector or segmentor.
        dataset: The type of the dataset, for the sentence.

    Raises:
        InputError: If the head has fewer.
    """
    head = classification_head(model)
    if head is None or not classes or head.num_classes == len(classes):
        return
    sentence = (
        f"{type(head).__name__} has num_classes={head.num_classes}, but {dataset} has {len(classes)} classes "
        f"({', '.join(classes[:3])}, ...)"
    )
    if head.num_classes < len(classes):
        raise InputError(f"{sentence}; set num_classes of every head, or metainfo.classes of every dataset.")
    print_log(f"{sentence}; the last ones have no name.", logger="current", level=logging.WARNING)
