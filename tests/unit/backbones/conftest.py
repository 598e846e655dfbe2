"""Checks that every family passes: recomputation, and half precision."""

import warnings

import pytest
import torch


@pytest.fixture
def check_recomputation():
    """Constructor (with_cp -> backbone), image size: gradients with and without recomputation are the same bits."""

    def check(build, size):
        image = torch.randn(4, 3, *size, dtype=torch.float64)
        gradients = []
        for with_cp in (False, True):
            backbone = build(with_cp=with_cp).double()
            torch.manual_seed(1)  # of drop path
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                sum(f.square().sum() for f in backbone(image)).backward()
            gradients.append({name: p.grad for name, p in backbone.named_parameters() if p.grad is not None})
        plain, recomputed = gradients
        assert plain.keys() == recomputed.keys()
        assert all(torch.equal(plain[name], recomputed[name]) for name in plain)

    return check


@pytest.fixture
def check_half_precision():
    """Backbone, image size, dtype, bound: weights or autocast of a half type change features by few roundings.

    Features are layer-normalised, so of size 1, and the bound counts roundings.
    """

    def check(backbone, size, dtype, roundings):
        backbone.eval()
        image = torch.rand(1, 3, *size)
        exact = backbone(image)
        with torch.autocast("cpu", dtype=dtype):
            autocast = backbone(image)
        half = backbone.to(dtype)(image.to(dtype))
        for low, features, expected in zip(half, autocast, exact, strict=True):
            assert low.dtype == dtype
            assert (low - expected).abs().max() < roundings * torch.finfo(dtype).eps
            assert (features - expected).abs().max() < roundings * torch.finfo(dtype).eps
        sum(f.float().square().sum() for f in half).backward()
        assert all(p.grad.isfinite().all() for p in backbone.parameters())

    return check
