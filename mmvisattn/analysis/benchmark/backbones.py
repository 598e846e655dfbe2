"""Our backbones against the same ones of other libraries: forward pass and training step, time and peak memory.

Every peer holds our weights. Before anything is timed, all maps of all peers must equal ours in float64 on a size where
the libraries agree on padding.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from mmvisattn.analysis.benchmark.measure import Work, peak_memory, time_in_turns
from mmvisattn.analysis.benchmark.peers import PEERS, Peer, Size
from mmvisattn.backbones.convnext import ConvNeXt, ConvNeXtV2
from mmvisattn.backbones.swin import SwinTransformer
from mmvisattn.backbones.swin_v2 import SwinTransformerV2

OURS = "mmvisattn"


@dataclass(frozen=True)
class Subject:
    """A backbone of ours and the conditions of its gate.

    Attributes:
        build: The backbone.
        gate_size: Image whose maps are all larger than a window and hold whole windows.
        tolerance: Largest relative difference in float64: the same sums in another order, unless a peer rounds.
    """

    build: Callable[[], nn.Module]
    gate_size: Size
    tolerance: float = 1e-9


BACKBONES = {
    "swin_tiny": Subject(lambda: SwinTransformer("tiny", drop_path_rate=0.0), (448, 448)),
    # the peers keep the coordinates of the position network in float32
    "swin_v2_tiny": Subject(lambda: SwinTransformerV2("tiny", window_size=8, drop_path_rate=0.0), (512, 512), 1e-5),
    "convnext_tiny": Subject(lambda: ConvNeXt("tiny", layer_scale_init_value=1.0), (256, 256)),
    "convnext_v2_tiny": Subject(lambda: ConvNeXtV2("tiny"), (256, 256)),
}


class GateError(AssertionError):
    """A peer does not compute what ours computes, so comparing speed would mean nothing."""


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        backbone: What was measured.
        library: Whose.
        size: Height and width of the image in pixels.
        mode: ``'forward'`` (no gradients) or ``'step'`` (forward and backward).
        seconds: Median of the rounds.
        time_ratio: Its time over ours; above 1 ours is faster.
        memory: Peak memory in bytes.
        memory_ratio: Its memory over ours; above 1 ours needs less.
    """

    backbone: str
    library: str
    size: Size
    mode: str
    seconds: float
    time_ratio: float
    memory: int
    memory_ratio: float


def compare(
    backbone: str, libraries: Sequence[str], sizes: Sequence[Size], rounds: int = 5, batch: int = 1, device: str = "cpu"
) -> list[Row]:
    """Run the gate, then measure ours and the peers in turns.

    Args:
        backbone: A name in :data:`BACKBONES`.
        libraries: Import names of the peers.
        sizes: Heights and widths of the images in pixels.
        rounds: How often each is timed.
        batch: Images in a batch.
        device: ``'cpu'`` or ``'cuda'``.

    Raises:
        ValueError: If a name is unknown.
        GateError: If a peer's maps differ from ours.
    """
    if backbone not in BACKBONES:
        raise ValueError(f"backbone must be one of {list(BACKBONES)}, got {backbone!r}")
    known = {peer.library: peer for peer in PEERS[backbone]}
    unknown = [name for name in libraries if name not in known]
    if unknown:
        raise ValueError(f"for {backbone} the libraries are {list(known)}, got {unknown[0]!r}")
    torch.manual_seed(0)
    subject = BACKBONES[backbone]
    ours = subject.build()
    peers = [known[name] for name in libraries]
    for peer in peers:
        check_gate(ours, peer, subject)
    rows = []
    for size in sizes:
        image = torch.rand(batch, 3, *size, device=device)
        models = {OURS: (ours.float().to(device), lambda model, x: model(x))}
        for peer in peers:
            model = peer.build(size)
            peer.load(model, ours.state_dict())
            models[peer.library] = (model.to(device), peer.stages)
        for mode in ("forward", "step"):
            work = {name: _work(model, stages, image, mode) for name, (model, stages) in models.items()}
            rows += _measure(backbone, size, mode, work, rounds, device)
    return rows


def check_gate(ours: nn.Module, peer: Peer, subject: Subject) -> None:
    """Compare all maps in float64.

    Raises:
        GateError: If one differs.
    """
    image = torch.rand(1, 3, *subject.gate_size, dtype=torch.float64)
    model = peer.build(subject.gate_size).double()
    model.eval()  # not chained: mmdet's returns nothing
    ours.double().eval()
    peer.load(model, ours.state_dict())
    norms = dict(ours.out_norms.items())
    if not peer.out_norms:
        ours.out_norms.update({name: nn.Identity() for name in norms})
    with torch.no_grad():
        pairs = list(zip(ours(image), peer.stages(model, image), strict=True))
    ours.out_norms.update(norms)
    error = max(((mine - theirs).abs().max() / theirs.abs().max()).item() for mine, theirs in pairs)
    if not error <= subject.tolerance:
        raise GateError(f"{peer.library}'s maps differ from ours by {error:.1e}, more than {subject.tolerance}")


def _work(model: nn.Module, stages: object, image: Tensor, mode: str) -> Work:
    """One forward pass, or one forward and backward pass, of a model."""

    def forward() -> None:
        model.eval()
        with torch.no_grad():
            stages(model, image)

    def step() -> None:
        model.train()
        sum(features.mean() for features in stages(model, image)).backward()
        model.zero_grad(set_to_none=True)

    return forward if mode == "forward" else step


def _measure(backbone: str, size: Size, mode: str, work: dict[str, Work], rounds: int, device: str) -> list[Row]:
    timings = time_in_turns(work, rounds, device)
    memory = {name: peak_memory(run, device) for name, run in work.items()}
    our_time, our_memory = timings[OURS].median, max(memory[OURS], 1)
    return [
        Row(
            backbone,
            name,
            size,
            mode,
            timings[name].median,
            timings[name].median / our_time,
            memory[name],
            memory[name] / our_memory,
        )
        for name in work
    ]


def table(rows: Sequence[Row]) -> str:
    """One line per measurement, as Markdown.

    >>> row = Row("swin_tiny", "timm", (512, 512), "forward", 0.5, 1.25, 2**30, 2.0)
    >>> print(table([row]).splitlines()[-1])
    | swin_tiny | 512 x 512 | forward | timm | 500.0 | 1.25 | 1024 | 2.00 |
    """
    lines = [
        "| backbone | image | mode | library | ms | time / ours | peak MiB | memory / ours |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        numbers = f"{row.seconds * 1e3:.1f} | {row.time_ratio:.2f} | {row.memory / 2**20:.0f} | {row.memory_ratio:.2f}"
        lines.append(f"| {row.backbone} | {row.size[0]} x {row.size[1]} | {row.mode} | {row.library} | {numbers} |")
    return "\n".join(lines)


def to_json(rows: Sequence[Row]) -> str:
    """All rows with the machine they come from."""
    where = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
    return json.dumps({"machine": where, "rows": [asdict(row) for row in rows]}, indent=1)
