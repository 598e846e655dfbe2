"""The benchmark compares only what computes the same, and its figures mean what its tables say."""

import time

import pytest
import torch
from torchvision.models import SwinTransformer as TorchvisionSwin

import mmvisattn.registry  # noqa: F401  (mmdet, a peer, imports mmcv.ops)
from mmvisattn.analysis.benchmark import backbones, measure, peers, window_attention
from mmvisattn.backbones.swin import SwinTransformer
from mmvisattn.checkpoints.maps import swin

NANO = dict(embed_dim=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1))


@pytest.fixture
def nano(monkeypatch):
    """A nano Swin, ours and torchvision's, as the only backbone there is."""

    def build(size):
        return TorchvisionSwin([4, 4], 8, [1, 1, 1, 1], [1, 1, 1, 1], [2, 2])

    peer = peers.Peer("torchvision", build, peers._torchvision_stages(last_axis=True), swin.TORCHVISION)
    ours = backbones.Subject(lambda: SwinTransformer(NANO, window_size=2, drop_path_rate=0.0), (64, 64))
    monkeypatch.setitem(backbones.BACKBONES, "nano", ours)
    monkeypatch.setitem(peers.PEERS, "nano", (peer,))
    return peer


def test_rows_of_ours_and_of_the_peer(nano):
    rows = backbones.compare("nano", ["torchvision"], [(64, 96)], rounds=1)
    assert [(row.library, row.mode) for row in rows] == [
        ("mmvisattn", "forward"),
        ("torchvision", "forward"),
        ("mmvisattn", "step"),
        ("torchvision", "step"),
    ]
    for ours, theirs in (rows[:2], rows[2:]):
        assert ours.time_ratio == 1 and theirs.time_ratio == pytest.approx(theirs.seconds / ours.seconds)
    assert len(backbones.table(rows).splitlines()) == 2 + len(rows)
    assert '"library": "torchvision"' in backbones.to_json(rows)


def test_nothing_is_timed_when_the_outputs_differ(nano, monkeypatch):
    def wrong(model, image):
        return [features + 1e-6 * features.abs().max() for features in nano.stages(model, image)]

    other = peers.Peer("torchvision", nano.build, wrong, swin.TORCHVISION)
    monkeypatch.setitem(peers.PEERS, "nano", (other,))
    monkeypatch.setattr(backbones, "time_in_turns", None)  # would fail if it were called
    with pytest.raises(backbones.GateError, match="torchvision's maps differ from ours by 1"):
        backbones.compare("nano", ["torchvision"], [(64, 96)], rounds=1)


def test_a_peer_that_does_not_take_all_weights(nano):
    model = nano.build((64, 64))
    model.extra = torch.nn.Linear(1, 1)
    with pytest.raises(ValueError, match="missing .*extra.weight"):
        nano.load(model, SwinTransformer(NANO, window_size=2).state_dict())


@pytest.mark.parametrize(("backbone", "library"), [("resnet", "timm"), ("nano", "keras")])
def test_unknown_names(nano, backbone, library):
    with pytest.raises(ValueError, match="got '(resnet|keras)'"):
        backbones.compare(backbone, [library], [(64, 64)], rounds=1)


def test_the_first_round_does_not_count():
    calls = []

    def work():
        time.sleep(0.2 if not calls else 0.001)
        calls.append(1)

    timing = measure.time_in_turns({"work": work}, rounds=3, device="cpu")["work"]
    assert len(timing.seconds) == 3 and max(timing.seconds) < 0.2


def test_peak_memory_counts_what_is_freed_again():
    def work():
        block = torch.ones(64 * 2**20, dtype=torch.uint8)
        block.add_(1)

    assert 60 * 2**20 < measure.peak_memory(work, "cpu") < 140 * 2**20


def test_step_by_step_code_is_the_same_attention():
    """In float64, so that the yardstick of the op's gate is itself held to the reference."""
    case = window_attention.Case(2, (10, 17), 24, 3, torch.float64)
    inputs = window_attention.make_inputs(case, "cpu")
    outputs = {name: run(inputs) for name, run in window_attention.subjects(case, "cpu").items()}
    table = inputs.table.detach().double().requires_grad_()
    exact = window_attention.step_by_step(
        window_attention.Inputs(inputs.qkv, inputs.windows, table, inputs.mask.double(), inputs.grad_out), case
    )
    for name, output in outputs.items():
        # the table is float32 in all of them, but only the step-by-step code would also sum in it
        assert torch.allclose(output, exact, rtol=0, atol=1e-12 if name != "step by step" else 1e-6), name


def test_table_of_the_op():
    case = window_attention.Case(1, (8, 9), 16, 2, torch.float32)
    text = window_attention.compare([case], "cpu", rounds=1)
    assert text.count("| forward |") == text.count("| backward |") == 3
    assert "| 8 x 9 | 16 | 1 | float32 | forward | mmvisattn |" in text


@pytest.mark.slow
@pytest.mark.parametrize("backbone", list(backbones.BACKBONES))
def test_every_peer_passes_the_gate(backbone):
    subject = backbones.BACKBONES[backbone]
    for peer in peers.PEERS[backbone]:
        backbones.check_gate(subject.build(), peer, subject)
