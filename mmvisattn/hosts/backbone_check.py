"""Finds faulty options of our backbones before anything is built, and says where in the config they stand."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from mmengine.config import Config, ConfigDict
from mmengine.registry import MODELS

from mmvisattn.backbones.suggest import did_you_mean
from mmvisattn.hosts.input_error import InputError

SCOPE = "mmvisattn"


def check_backbones(cfg: Config) -> None:
    """Build each of our backbones in a config once, without memory for its weights.

    Args:
        cfg: The config; ``mmvisattn.registry`` has been imported.

    Raises:
        InputError: If a backbone's type is unknown, or its constructor refuses an option.
    """
    for place, backbone in backbone_configs(cfg.model, "model"):
        kind = backbone["type"]
        if MODELS.get(kind) is None:
            known = [f"{SCOPE}.{name}" for name in MODELS.children[SCOPE].module_dict]
            raise InputError(f"{place}.type is '{kind}', which is not registered{did_you_mean(kind, known)}")
        try:
            with torch.device("meta"):
                MODELS.build(backbone)
        except (TypeError, ValueError) as error:
            raise InputError(f"{place}: {error}") from error


def check_pretrained(cfg: Config) -> None:
    """Check that the checkpoints exist which our backbones load before training.

    Args:
        cfg: The config.

    Raises:
        InputError: If there is no such file. Addresses pass.
    """
    for place, backbone in backbone_configs(cfg.model, "model"):
        entries = backbone.get("init_cfg") or []
        for entry in [entries] if isinstance(entries, Mapping) else entries:
            path = entry.get("checkpoint")
            if entry.get("type") != "Pretrained" or not isinstance(path, str) or "://" in path:
                continue
            if not Path(path).expanduser().is_file():
                raise InputError(f"{place}.init_cfg.checkpoint is '{path}', which is not a file.")


def backbone_configs(config: object, place: str) -> Iterator[tuple[str, ConfigDict]]:
    """The configs of our backbones in a model, with the places where they stand.

    Args:
        config: The model's config, or a part of it.
        place: Where the part stands.

    Example:
        >>> model = dict(type="mmdet.SoftTeacher", detector=dict(backbone=dict(type="mmvisattn.SwinTransformer")))
        >>> list(backbone_configs(model, "model"))
        [('model.detector.backbone', {'type': 'mmvisattn.SwinTransformer'})]
    """
    for name, part in config.items() if isinstance(config, Mapping) else ():
        if isinstance(part, Mapping) and name == "backbone" and str(part.get("type")).startswith(f"{SCOPE}."):
            yield f"{place}.{name}", part
        else:
            yield from backbone_configs(part, f"{place}.{name}")
