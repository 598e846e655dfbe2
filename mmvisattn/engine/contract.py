"""Whether the parts of a detector or segmentor fit: channels and strides from backbone to neck to heads.

A mismatch otherwise surfaces as a shape error deep inside a convolution, or, for strides, not at all: boxes are then
simply wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

HEADS = ("bbox_head", "rpn_head", "decode_head", "auxiliary_head", "panoptic_head")


class ContractError(ValueError):
    """Two neighbouring parts of a model do not fit; the message holds both lists."""


@dataclass(frozen=True)
class Features:
    """What one part hands to the next.

    Attributes:
        source: Who produces it, for messages.
        channels: Channels of each level.
        strides: Stride of each level in input pixels; None when the producer does not say.
    """

    source: str
    channels: list[int]
    strides: list[int] | None


@dataclass
class Report:
    """The comparisons that were made, in words, and those that failed."""

    checked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def compare(self, what: str, given: Sequence[Any], expected: Sequence[Any]) -> None:
        """Record whether two lists are equal."""
        line = f"{what}: {list(given)} against {list(expected)}"
        self.checked.append(line)
        if list(given) != list(expected):
            self.problems.append(line)

    def __str__(self) -> str:
        """One comparison a line."""
        return "\n".join(self.checked)


def check(model: nn.Module) -> Report:
    """Compare the channels and strides of a model's backbone, neck and heads.

    Backbones without ``out_channels`` and ``out_strides`` (those of other packages) are left alone, and so is every
    part whose expectations cannot be read from its attributes.

    Args:
        model: A detector of mmdet or a segmentor of mmseg, possibly wrapped for distributed training.

    Returns:
        The comparisons made.

    Raises:
        ContractError: If two parts do not fit; the message holds both lists.
    """
    model = getattr(model, "module", model)
    report = Report()
    features = backbone_features(model)
    if features is None:
        return report
    if getattr(model, "neck", None) is not None:
        features = through_neck(report, model.neck, features)
    for name in HEADS:
        head = getattr(model, name, None)
        if features is None or head is None:
            continue
        for each in head if isinstance(head, nn.ModuleList) else [head]:
            check_head(report, name, each, features)
    if features is not None and getattr(model, "roi_head", None) is not None:
        check_roi_head(report, model.roi_head, features)
    if report.problems:
        raise ContractError("the model's parts do not fit: " + "; ".join(report.problems))
    return report


def backbone_features(model: nn.Module) -> Features | None:
    """The levels a backbone says it produces, or None when it does not say."""
    backbone = getattr(model, "backbone", None)
    channels, strides = getattr(backbone, "out_channels", None), getattr(backbone, "out_strides", None)
    if not isinstance(channels, (list, tuple)) or not isinstance(strides, (list, tuple)):
        return None
    return Features(f"backbone {type(backbone).__name__}", list(channels), list(strides))


def through_neck(report: Report, neck: nn.Module, features: Features) -> Features | None:
    """Compare a neck's input with the features it gets; returns what it produces, or None when that cannot be known."""
    name = f"neck {type(neck).__name__}"
    expected = getattr(neck, "in_channels", None)
    if not isinstance(expected, (list, tuple)):
        return None
    report.compare(f"channels of {features.source} and in_channels of {name}", features.channels, expected)
    out_channels, levels = getattr(neck, "out_channels", None), getattr(neck, "num_outs", None)
    if not isinstance(out_channels, int) or not isinstance(levels, int):
        return None
    strides = neck_strides(neck, features.strides, levels)
    return Features(name, [out_channels] * levels, strides)


def neck_strides(neck: nn.Module, strides: list[int] | None, levels: int) -> list[int] | None:
    """Strides of a pyramid: those of the levels it starts from, then twice the last for each extra level."""
    start = getattr(neck, "start_level", None)
    if strides is None or not isinstance(start, int):
        return None
    end = getattr(neck, "backbone_end_level", len(strides))
    used = strides[start:end]
    while len(used) < levels:
        used.append(used[-1] * 2)
    return used[:levels]


def check_head(report: Report, name: str, head: nn.Module, features: Features) -> None:
    """Compare a dense head with the features it gets: channels of the levels it selects, strides of its anchors."""
    expected, index = getattr(head, "in_channels", None), getattr(head, "in_index", None)
    title = f"{name} {type(head).__name__}"
    if index is not None:
        indices = list(index) if isinstance(index, (list, tuple)) else [index]
        wanted = list(expected) if isinstance(expected, (list, tuple)) else [expected] * len(indices)
        levels = len(features.channels)
        if any(not -levels <= i < levels for i in indices):
            report.problems.append(f"in_index of {title}: {indices} against {levels} levels of {features.source}")
            return
        given = [features.channels[i] for i in indices]
        if getattr(head, "input_transform", None) == "resize_concat":
            given, wanted = [sum(given)], [expected]
        report.compare(f"channels of {features.source} at {indices} and in_channels of {title}", given, wanted)
    elif isinstance(expected, int):
        wanted = [expected] * len(features.channels)
        report.compare(f"channels of {features.source} and in_channels of {title}", features.channels, wanted)
    elif isinstance(expected, (list, tuple)):
        report.compare(f"channels of {features.source} and in_channels of {title}", features.channels, expected)
    anchors = getattr(getattr(head, "prior_generator", None), "strides", None)
    if anchors is not None and features.strides is not None:
        given = [stride[0] if isinstance(stride, tuple) else stride for stride in anchors]
        report.compare(f"strides of {features.source} and of the anchors of {title}", features.strides, given)


def check_roi_head(report: Report, roi_head: nn.Module, features: Features) -> None:
    """Compare the RoI extractors of a two-stage detector with the levels they read."""
    for name in ("bbox_roi_extractor", "mask_roi_extractor"):
        extractors = getattr(roi_head, name, None)
        if extractors is None:
            continue
        for extractor in extractors if isinstance(extractors, nn.ModuleList) else [extractors]:
            strides = list(getattr(extractor, "featmap_strides", []))
            if features.strides is not None and strides:
                what = f"strides of {features.source} and featmap_strides of roi_head.{name}"
                report.compare(what, features.strides[: len(strides)], strides)
            channels = getattr(extractor, "out_channels", None)
            if isinstance(channels, int):
                what = f"channels of {features.source} and out_channels of roi_head.{name}"
                report.compare(what, features.channels[: len(strides)], [channels] * len(strides))
