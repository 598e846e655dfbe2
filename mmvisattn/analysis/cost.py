"""Parameters, FLOPs and activations of any config, at any input size, without computing anything.

The model is built and run on the meta device. FLOPs are multiply-accumulates of convolutions and matrix products, as
papers count them. Attention is counted on the reference implementation, whichever ``impl`` a config names, so the
number is that of the architecture. Two-stage detectors are counted with 1000 proposals, and 100 of them in mask
heads, as MMDetection does; segmentors without their auxiliary heads, as MMSegmentation does.
"""

import copy
import inspect
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from mmengine.registry import MODELS, init_default_scope
from torch import Tensor, nn

PROPOSALS = 1000
MASK_PROPOSALS = 100


@dataclass(frozen=True)
class ModuleCost:
    """Cost of one module with everything inside it.

    Attributes:
        parameters: Number of parameters.
        flops: Multiply-accumulates for one image.
        activations: Values in the outputs of its innermost modules, for one image.
    """

    parameters: int
    flops: int
    activations: int


@dataclass(frozen=True)
class Cost:
    """Cost of a model and of each module in it.

    Attributes:
        shape: Height and width of the image in pixels.
        total: The whole model.
        modules: By module name; a module that was not run has no FLOPs and no activations.
    """

    shape: tuple[int, int]
    total: ModuleCost
    modules: dict[str, ModuleCost]

    def summary(self) -> str:
        """One line: parameters in millions, FLOPs in billions."""
        height, width = self.shape
        millions, billions = self.total.parameters / 1e6, self.total.flops / 1e9
        return f"parameters {millions:.2f} M, FLOPs {billions:.2f} G at {height} x {width}"

    def table(self, depth: int = 1) -> str:
        """The modules down to a depth, one a line."""
        lines = [f"{'module':<44} {'parameters M':>12} {'FLOPs G':>10} {'activations M':>14}"]
        for name, cost in self.modules.items():
            if name.count(".") < depth:
                numbers = f"{cost.parameters / 1e6:>12.3f} {cost.flops / 1e9:>10.3f} {cost.activations / 1e6:>14.3f}"
                lines.append(f"{name:<44} {numbers}")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Everything, as JSON."""
        return json.dumps(asdict(self), indent=1)


def of_config(config: Any, shape: tuple[int, int]) -> Cost:
    """Cost of the model of a config.

    Args:
        config: An mmengine ``Config`` with a ``model``.
        shape: Height and width of the image in pixels.

    Raises:
        ValueError: If the shape is not positive, or the model cannot be run on the meta device.
    """
    init_default_scope(config.get("default_scope", "mmengine"))
    with torch.device("meta"):
        model = MODELS.build(copy.deepcopy(config.model))
    return of_model(model, shape)


def of_model(model: nn.Module, shape: tuple[int, int]) -> Cost:
    """Cost of a detector, a segmentor or a backbone that stands on the meta device.

    Example:
        >>> cost = of_model(nn.Conv2d(3, 8, 3, padding=1, device="meta"), (10, 20))
        >>> cost.total
        ModuleCost(parameters=224, flops=43200, activations=1600)
    """
    if min(shape) < 1:
        raise ValueError(f"shape must be (height, width) in pixels, at least 1, got {tuple(shape)}")
    from torch.utils.flop_counter import FlopCounterMode  # imports Triton, so not at the top

    model.eval()
    for module in model.modules():
        if hasattr(module, "impl"):
            module.impl = "reference"
    activations: dict[str, int] = defaultdict(int)
    hooks = [
        module.register_forward_hook(_count_outputs(activations, name))
        for name, module in model.named_modules()
        if not list(module.children())
    ]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        _ImageRun(model)(torch.empty(1, input_channels(model), *shape, device="meta"))
    for hook in hooks:
        hook.remove()
    flops = {
        name.removeprefix("_ImageRun.model."): sum(ops.values()) for name, ops in counter.get_flop_counts().items()
    }
    modules = {
        name: ModuleCost(
            parameters=sum(parameter.numel() for parameter in module.parameters()),
            flops=_flops_of(name, module, flops) // 2,  # torch counts a multiply and an add as two
            activations=sum(
                count for leaf, count in activations.items() if leaf == name or leaf.startswith(name + ".") or not name
            ),
        )
        for name, module in model.named_modules()
    }
    total = modules.pop("")
    total = ModuleCost(total.parameters, counter.get_total_flops() // 2, total.activations)
    return Cost(tuple(shape), total, modules)


def _flops_of(name: str, module: nn.Module, counted: dict[str, int]) -> int:
    """FLOPs of a module; where not it but its parts were called (a RoI head's stages), those of the parts."""
    if name in counted:
        return counted[name]
    prefix = name + "." if name else ""
    return sum(_flops_of(prefix + part, child, counted) for part, child in module.named_children())


def register_kernel_formulas() -> None:
    """Teach torch's ``FlopCounterMode`` the registered attention ops: 4 P N C forward and 10 P N C backward.

    P is the number of padded positions, N the tokens of a window, C the channels; a multiply and an add count as two,
    as in torch's own formulas. Calling it again changes nothing.
    """
    from torch.utils.flop_counter import flop_registry, register_flop_formula

    from mmvisattn.ops import blockwise_op
    from mmvisattn.ops.window_attention.triton import registration

    def products(count: int, qkv_shape: Sequence[int], window_size: Sequence[int]) -> int:
        batch, height, width, channels = qkv_shape
        rows, columns = window_size
        padded = batch * -(-height // rows) * rows * -(-width // columns) * columns
        return count * padded * rows * columns * (channels // 3)

    # Each formula gets the op's arguments, with shapes in place of tensors; the window's place among them differs.
    def formula(count: int, qkv: int, window: int) -> Callable[..., int]:
        return lambda *arguments, **unused: products(count, arguments[qkv], arguments[window])

    assert registration.library is not None and blockwise_op.library is not None  # importing them registered the ops
    ops = torch.ops.mmvisattn
    formulas = {
        ops.window_attention: formula(4, qkv=0, window=5),
        ops.window_attention_backward: formula(10, qkv=1, window=6),
        ops.blockwise_attention: formula(4, qkv=0, window=6),
        ops.blockwise_attention_backward: formula(10, qkv=1, window=7),
    }
    for op, count in formulas.items():
        if op not in flop_registry:
            register_flop_formula(op)(count)


def _count_outputs(activations: dict[str, int], name: str) -> Any:
    """A forward hook that adds the size of a module's output to its account."""

    def hook(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            activations[name] += output.numel()

    return hook


def input_channels(model: nn.Module) -> int:
    """Channels of the image a model takes: those of its first convolution."""
    backbone = getattr(model, "backbone", model)
    return next((module.in_channels for module in backbone.modules() if isinstance(module, nn.Conv2d)), 3)


class _ImageRun(nn.Module):
    """What a model does for one image before any post-processing, as a module, so that torch names every part in it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> None:
        """Run backbone, neck and heads."""
        model = self.model
        if not hasattr(model, "backbone"):
            model(image)
            return
        features = model.extract_feat(image)
        if hasattr(model, "decode_head"):
            model.decode_head(features)
            return
        for name in ("rpn_head", "bbox_head"):
            if getattr(model, name, None) is not None:
                getattr(model, name)(features)
        if getattr(model, "roi_head", None) is not None:
            run_roi_head(model.roi_head, features)


def run_roi_head(roi_head: nn.Module, features: tuple[Tensor, ...]) -> None:
    """Run every stage of a RoI head on features of the right shape, as if the proposals had been pooled."""
    for extractor, head in _stages(roi_head, "bbox_roi_extractor", "bbox_head"):
        head(_pooled(extractor, PROPOSALS))
    previous = None
    for extractor, head in _stages(roi_head, "mask_roi_extractor", "mask_head"):
        pooled = _pooled(extractor, MASK_PROPOSALS)
        if "res_feat" in inspect.signature(head.forward).parameters:  # HTC hands mask features from stage to stage
            previous = head(pooled, previous)[1]
        else:
            head(pooled)
    if getattr(roi_head, "semantic_head", None) is not None:
        roi_head.semantic_head(features)


def _stages(roi_head: nn.Module, extractor_name: str, head_name: str) -> list[tuple[nn.Module, nn.Module]]:
    """Pairs of RoI extractor and head, one for each stage of a cascade."""
    extractors, heads = getattr(roi_head, extractor_name, None), getattr(roi_head, head_name, None)
    if heads is None:
        return []
    heads = list(heads) if isinstance(heads, nn.ModuleList) else [heads]
    extractors = list(extractors) if isinstance(extractors, nn.ModuleList) else [extractors] * len(heads)
    return list(zip(extractors, heads, strict=True))


def _pooled(extractor: nn.Module, proposals: int) -> Tensor:
    """Pooled features (proposals, C, h, w) of the shape that an extractor produces."""
    size = extractor.roi_layers[0].output_size
    return torch.empty(proposals, extractor.out_channels, *size, device="meta")
