from dataclasses import dataclass

import pytest

from mmvisattn.backbones.arch import per_stage, resolve_arch
from mmvisattn.backbones.options import Becomes, IntoArch, Only, accepts_host_options, one_of


@dataclass(frozen=True)
class Arch:
    embed_dim: int
    depth: int = 2


ARCHS = {"tiny": Arch(8), "base_plus": Arch(16)}
PORTED = {
    "embed_dims": IntoArch("embed_dim"),
    "pad_small_map": Becomes("small_map", one_of({True: "pad", False: "shrink"})),
    "qk_scale": Only((None,)),
    "pool": Only(((4, 2),), instead="change depth of arch"),
    "hidden": IntoArch("embed_dim", lambda value: value // 2),
}


class Backbone:
    archs = ARCHS

    @accepts_host_options(PORTED)
    def __init__(self, arch="tiny", drop_path_rate=0.1, small_map="pad"):
        self.arch = resolve_arch(arch, ARCHS)
        self.drop_path_rate = drop_path_rate
        self.small_map = small_map


def test_own_options_pass_through():
    backbone = Backbone("base_plus", drop_path_rate=0.3)
    assert (backbone.arch, backbone.drop_path_rate, backbone.small_map) == (Arch(16), 0.3, "pad")


@pytest.mark.parametrize("arguments", [((), {}), (("tiny",), {}), ((), {"arch": "tiny"}), ((dict(embed_dim=1),), {})])
def test_host_option_changes_the_architecture(arguments):
    args, options = arguments
    assert Backbone(*args, **options, embed_dims=24).arch == Arch(24)


def test_host_option_stands_for_another():
    assert Backbone(pad_small_map=False).small_map == "shrink"


def test_list_counts_as_tuple():
    Backbone(pool=[4, 2], qk_scale=None)


def test_two_host_options_for_one_field_must_agree():
    assert Backbone(embed_dims=24, hidden=48).arch == Arch(24)
    with pytest.raises(ValueError, match="hidden=40 contradicts"):
        Backbone(embed_dims=24, hidden=40)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(drop_path=0.1), TypeError, "Backbone has no option 'drop_path'; did you mean 'drop_path_rate'"),
        (dict(embed_dim=8), TypeError, "no option 'embed_dim'; did you mean 'embed_dims'"),
        (dict(xyz=8), TypeError, r"no option 'xyz'; the options are \['arch', 'drop_path_rate', 'small_map'\]"),
        (dict(qk_scale=0.5), ValueError, "qk_scale must be None, got 0.5"),
        (dict(pool=[2, 2]), ValueError, r"pool must be \(4, 2\), got \[2, 2\]; change depth of arch"),
        (dict(pad_small_map="no"), ValueError, "pad_small_map cannot be 'no': it must be True or False"),
        (dict(pad_small_map=True, small_map="pad"), TypeError, "pad_small_map and small_map are two names"),
        (dict(arch="tinny"), ValueError, "arch must be one of .*'tiny'.*got 'tinny'; did you mean 'tiny'"),
        (dict(arch=3), TypeError, "arch must be one of .*'tiny'.* or a dict, got 3"),
        (dict(arch=dict(embed_dim=8, depht=1)), TypeError, "arch has no field 'depht'.*did you mean 'depth'"),
        (dict(arch=dict(embed_dim=8, embed_dims=8)), TypeError, "two names of one field of arch"),
        (dict(arch=dict(depth=1)), TypeError, "arch must have the field 'embed_dim'"),
    ],
)
def test_errors(options, error, message):
    with pytest.raises(error, match=message):
        Backbone(**options)


def test_an_option_given_by_position_and_by_a_host_name():
    with pytest.raises(TypeError, match="two names of one option"):
        Backbone("tiny", 0.1, "pad", pad_small_map=True)


def test_host_word_in_an_architecture():
    assert resolve_arch(dict(embed_dims=5), ARCHS) == Arch(5)


@pytest.mark.parametrize("values", [(), 3, "22", (2, 0), (2.0, 2), (True, 2), None])
def test_per_stage_wants_positive_integers(values):
    with pytest.raises(ValueError, match="depths must be one positive integer per stage"):
        per_stage("depths", values)


def test_per_stage_wants_as_many_as_there_are_stages():
    with pytest.raises(ValueError, match="num_heads must be 4 positive integers, one per stage"):
        per_stage("num_heads", (1, 2), 4)
