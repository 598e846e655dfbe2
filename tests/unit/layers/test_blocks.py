import torch
from torch import nn

from mmvisattn.layers.blocks import PreNormBlock
from mmvisattn.layers.stage import Stage


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x


def test_norm_comes_before_each_branch_and_not_on_the_residual():
    block = PreNormBlock(Times(2), Times(3), Times(5), Times(7), drop_path_rate=0.0)
    # 1 + 3 * 2 = 7, then 7 + 7 * 5 * 7
    assert block(torch.ones(1, 1, 1, 1)).item() == 7 + 7 * 5 * 7


def test_drop_path_leaves_the_residual():
    torch.manual_seed(0)
    block = PreNormBlock(Times(1), Times(1), Times(1), Times(0), drop_path_rate=0.5)
    # a dropped branch leaves 1, a kept one gives 1 + 1 / 0.5
    assert set(block(torch.ones(64, 1, 1, 1)).flatten().tolist()) == {1.0, 3.0}


def test_stage_downsamples_before_its_blocks():
    class Plus(nn.Module):
        def forward(self, x):
            return x + 1

    assert Stage(Times(3), [Plus(), Times(2)])(torch.ones(1, 1, 1, 1)).item() == (3 + 1) * 2


def test_recomputing_keeps_less_and_gives_the_same_gradients():
    torch.manual_seed(0)
    blocks = [
        PreNormBlock(nn.LayerNorm(4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4), drop_path_rate=0.5)
        for _ in range(2)
    ]
    results = []
    for with_cp in (False, True):
        stage = Stage(nn.Identity(), blocks, with_cp)
        saved = []
        torch.manual_seed(1)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, saved=saved: (saved.append(t.numel()), t)[1], lambda t: t
        ):
            y = stage(torch.ones(8, 2, 2, 4))
        stage.zero_grad()
        y.square().sum().backward()
        results.append((sum(saved), [p.grad.clone() for p in stage.parameters()]))
    (plain, plain_grads), (recomputed, recomputed_grads) = results
    assert recomputed < plain
    assert all(map(torch.equal, plain_grads, recomputed_grads))
