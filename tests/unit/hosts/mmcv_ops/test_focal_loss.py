import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

GAMMA, ALPHA = 2.0, 0.25


def sigmoid_oracle(logits, target, weight=None):
    hit = F.one_hot(target, logits.shape[1] + 1)[:, :-1].double()
    p = logits.sigmoid()
    share = ALPHA * hit + (1 - ALPHA) * (1 - hit)
    distance = p * (1 - hit) + (1 - p) * hit
    loss = share * distance**GAMMA * F.binary_cross_entropy_with_logits(logits, hit, reduction="none")
    return loss if weight is None else loss * weight[target][:, None]


def softmax_oracle(logits, target, weight=None):
    log_p = logits.log_softmax(dim=1).gather(1, target[:, None])[:, 0]
    loss = -ALPHA * (1 - log_p.exp()) ** GAMMA * log_p
    return loss if weight is None else loss * weight[target]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_sigmoid_focal_loss(random, weighted, reduction):
    from mmcv.ops import sigmoid_focal_loss

    ours, theirs = (random(8, 5).requires_grad_() for _ in range(2))
    theirs.data.copy_(ours)
    weight = torch.linspace(0.5, 2.0, 5, dtype=torch.float64) if weighted else None
    target = torch.arange(8) % (5 if weighted else 6)  # 5 is background
    loss = sigmoid_focal_loss(ours, target, GAMMA, ALPHA, weight, reduction)
    expected = sigmoid_oracle(theirs, target, weight)
    expected = {"none": expected, "sum": expected.sum(), "mean": expected.sum() / 8}[reduction]
    loss.sum().backward()
    expected.sum().backward()
    assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_softmax_focal_loss(random, weighted, reduction):
    from mmcv.ops import softmax_focal_loss

    ours, theirs = (random(8, 5).requires_grad_() for _ in range(2))
    theirs.data.copy_(ours)
    weight = torch.linspace(0.5, 2.0, 5, dtype=torch.float64) if weighted else None
    target = torch.arange(8) % 5
    loss = softmax_focal_loss(ours, target, GAMMA, ALPHA, weight, reduction)
    expected = getattr(softmax_oracle(theirs, target, weight), reduction)()
    loss.backward()
    expected.backward()
    assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_extreme_logits_stay_finite(gamma, dtype):
    from mmcv.ops import sigmoid_focal_loss, softmax_focal_loss

    target = torch.tensor([0, 1])
    for op in (sigmoid_focal_loss, softmax_focal_loss):
        logits = torch.tensor([[200.0, -200.0], [200.0, -200.0]], dtype=dtype, requires_grad=True)
        loss = op(logits, target, gamma, ALPHA, None, "sum")
        loss.backward()
        assert loss.isfinite() and logits.grad.isfinite().all()
        assert loss > 10  # the second row is as wrong as can be


def test_negative_targets_are_ignored_by_the_softmax_loss(random):
    from mmcv.ops import softmax_focal_loss

    logits = random(3, 4).requires_grad_()
    softmax_focal_loss(logits, torch.tensor([-1, 2, -1]), GAMMA, ALPHA, None, "sum").backward()
    assert logits.grad[1].all() and not logits.grad[[0, 2]].any()


def test_no_rows():
    from mmcv.ops import sigmoid_focal_loss

    logits = torch.zeros(0, 5, requires_grad=True)
    sigmoid_focal_loss(logits, torch.zeros(0, dtype=torch.long), GAMMA, ALPHA, None, "sum").backward()
    assert logits.grad.shape == (0, 5)


@pytest.mark.parametrize("name", ["sigmoid_focal_loss", "softmax_focal_loss"])
def test_target_beyond_the_classes(name):
    import mmcv.ops

    with pytest.raises(ValueError, match=f"{name}: target must not exceed . for 5 classes, got 6"):
        getattr(mmcv.ops, name)(torch.zeros(2, 5), torch.tensor([0, 6]))


def test_background_has_no_weight():
    from mmcv.ops import sigmoid_focal_loss

    with pytest.raises(ValueError, match="target must not exceed 4 where background has no weight, got 5"):
        sigmoid_focal_loss(torch.zeros(2, 5), torch.tensor([0, 5]), GAMMA, ALPHA, torch.ones(5))
