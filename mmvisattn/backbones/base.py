"""What all backbones share: outputs, freezing, initialisation, layer ids for layer decay."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from mmvisattn.backbones.freezing import freeze, freeze_batch_statistics
from mmvisattn.backbones.initialization import InitConfig, apply_init_cfg
from mmvisattn.checkpoints.state_dict_hook import convert_state_dict_in_place


class Backbone(nn.Module):
    """Base of the backbones: an image (B, C, H, W) in, one feature map (B, C_i, H_i, W_i) per output index out.

    A family sets ``patch_embed``, ``stages`` and ``out_norms`` in its constructor, then calls :meth:`finish`. Learned
    position embeddings and extra tokens are parameters of the backbone itself, not of a submodule.

    Args:
        dims: Channels of every level.
        strides: Stride of every level, in pixels.
        out_indices: Levels to return, in rising order. Negative indices count from the end. Levels after the last one
            are kept for checkpoints, but do not run, and are frozen.
        frozen_stages: -1 freezes nothing; 0 freezes the patch and position embeddings; k > 0 freezes the first k
            levels with their output norms as well. Frozen parts get no gradients and stay in eval mode.
        norm_eval: Whether batch norms stay in eval mode.
        init_cfg: What :meth:`init_weights` does after the family's own initialisation, see
            :func:`mmvisattn.backbones.initialization.apply_init_cfg`.

    Attributes:
        out_indices: Levels that are returned.
        out_channels: Channels of the returned maps.
        out_strides: Strides of the returned maps, in pixels.

    Raises:
        ValueError: If ``out_indices`` or ``frozen_stages`` is out of range, or ``out_indices`` is not rising.
    """

    archs: ClassVar[Mapping[str, Any]] = {}
    """The family's architectures by name."""

    no_decay_words: ClassVar[tuple[str, ...]] = ()
    """Parts of the names of parameters with more than one axis, or of their modules, that weight decay should spare."""

    patch_embed: nn.Module
    stages: nn.ModuleList
    out_norms: nn.ModuleDict

    def __init__(
        self,
        *,
        dims: Sequence[int],
        strides: Sequence[int],
        out_indices: int | Sequence[int],
        frozen_stages: int = -1,
        norm_eval: bool = False,
        init_cfg: InitConfig = None,
    ) -> None:
        super().__init__()
        if not -1 <= frozen_stages <= len(dims):
            raise ValueError(f"frozen_stages must be from -1 to {len(dims)}, got {frozen_stages}")
        self.dims = tuple(dims)
        self.out_indices = check_out_indices(out_indices, len(dims))
        self.out_channels = tuple(dims[index] for index in self.out_indices)
        self.out_strides = tuple(strides[index] for index in self.out_indices)
        self.frozen_stages = frozen_stages
        self.norm_eval = norm_eval
        self.init_cfg = init_cfg

    def build_out_norms(self, norm: Callable[[int], nn.Module]) -> nn.ModuleDict:
        """Build one norm per returned level, under the level's index; no other is created."""
        return nn.ModuleDict({str(index): norm(self.dims[index]) for index in self.out_indices})

    def finish(self) -> None:
        """Initialise and freeze; the last call of a family's constructor.

        Freezing happens here, and not only in :meth:`train`, because wrappers such as DDP read ``requires_grad``
        before anything calls :meth:`train`.
        """
        self.reset_parameters()
        self.train(self.training)

    def reset_parameters(self) -> None:
        """Give all parameters the initial values of the family's paper."""
        raise NotImplementedError

    def init_weights(self) -> None:
        """Initialise as the family's paper does, then as ``init_cfg`` says; the hosts call this before training.

        Raises:
            ValueError: If a checkpoint named in ``init_cfg`` does not fit.
        """
        self.reset_parameters()
        apply_init_cfg(self, self.init_cfg)

    def export(self, index: int, x: Tensor) -> Tensor:
        """Normalise the map of one level and turn (B, H, W, C) into (B, C, H, W).

        The result is contiguous, since compiled host ops such as RoIAlign read memory in that order without a check.
        """
        normed: Tensor = self.out_norms[str(index)](x)
        return normed.permute(0, 3, 1, 2).contiguous()

    def levels(self) -> list[nn.Module]:
        """Return the parts that ``out_indices`` and ``frozen_stages`` count: stages, or blocks in plain ViTs."""
        return list(self.stages)

    def levels_in_use(self) -> list[nn.Module]:
        """Return the levels up to the last returned one; no later one can change a result."""
        return self.levels()[: self.out_indices[-1] + 1]

    def frozen_parts(self) -> Iterator[nn.Module | nn.Parameter]:
        """Yield the modules and parameters that ``frozen_stages`` freezes, and the levels that are not in use.

        A level that does not run must not ask for gradients: DDP would wait for them.
        """
        yield from self.levels()[len(self.levels_in_use()) :]
        if self.frozen_stages < 0:
            return
        yield self.patch_embed
        yield from self.parameters(recurse=False)
        for index, level in enumerate(self.levels()[: self.frozen_stages]):
            yield level
            if str(index) in self.out_norms:
                yield self.out_norms[str(index)]

    def train(self, mode: bool = True) -> "Backbone":
        """Set training mode, except in frozen parts and, with ``norm_eval``, in batch norms. Returns ``self``."""
        super().train(mode)
        freeze(self.frozen_parts())
        if self.norm_eval:
            freeze_batch_statistics(self)
        return self

    @property
    def num_decay_layers(self) -> int:
        """Number of layers for learning-rate decay: the blocks of all stages."""
        return sum(len(stage.blocks) for stage in self.stages)

    def parameter_depth(self, name: str, decay_type: Literal["layer_wise", "stage_wise"] = "layer_wise") -> int:
        """Return the layer id of a parameter for learning-rate decay by depth.

        The learning rate is scaled by ``decay ** (num_decay_layers + 1 - id)``. Patch and position embeddings have
        id 0, output norms ``num_decay_layers + 1``. Layer-wise, block i, counted over all stages, has id i + 1 and a
        downsampling layer that of the block before it, as in the official SimMIM and Swin code
        (https://github.com/microsoft/SimMIM, MIT). Stage-wise, all blocks of stage s have id s + 1 and downsampling
        layers id 0, as in ConvNeXt (https://github.com/facebookresearch/ConvNeXt, MIT).

        Args:
            name: Name of the parameter, as in ``named_parameters``.
            decay_type: ``'layer_wise'`` or ``'stage_wise'``.
        """
        part, *rest = name.split(".")
        if part == "patch_embed" or not rest:
            return 0
        if part != "stages":
            return self.num_decay_layers + 1
        stage, layer, *rest = rest
        if decay_type == "stage_wise":
            return int(stage) + 1 if layer == "blocks" else 0
        blocks_before = sum(len(stage.blocks) for stage in self.stages[: int(stage)])
        return blocks_before + int(rest[0]) + 1 if layer == "blocks" else blocks_before

    def no_weight_decay(self) -> set[str]:
        """Return the names of the parameters that weight decay should spare.

        These are all with at most one axis (biases, norms, layer scales) and those with a part of their name in
        ``no_decay_words``.
        """
        return {
            name
            for name, parameter in self.named_parameters()
            if parameter.ndim <= 1 or not set(self.no_decay_words).isdisjoint(name.split("."))
        }

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Let ``load_state_dict`` of the backbone, or of a detector around it, take public checkpoints too."""
        convert_state_dict_in_place(self, state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *args)


def check_out_indices(out_indices: int | Sequence[int], num_levels: int) -> tuple[int, ...]:
    """Check output indices and make negative ones positive.

    Raises:
        ValueError: If there is none, one is out of range, or they are not in rising order.

    Example:
        >>> check_out_indices((1, 2, -1), num_levels=4)
        (1, 2, 3)
    """
    given: Any = (out_indices,) if isinstance(out_indices, int) else tuple(out_indices)
    indices = tuple(index + num_levels if index < 0 else index for index in given)
    in_range = all(0 <= index < num_levels for index in indices)
    if not indices or not in_range or list(indices) != sorted(set(indices)):
        raise ValueError(
            f"out_indices must be rising and without repetition, from {-num_levels} to {num_levels - 1}, got {given}"
        )
    return indices
