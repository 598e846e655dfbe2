"""No value of any option of any backbone is taken for something it does not say, or ends in an error from elsewhere."""

import inspect
import traceback
from importlib import import_module

import pytest
import torch

from mmvisattn.registry import REGISTERED

MODULES = {name: import_module(module) for _, name, module in REGISTERED if module.startswith("mmvisattn.backbones.")}
# Values as a config may hold them by mistake, and the options for which they mean something.
NUMBERS = {"layer_scale_init_value", "layer_scale_init", "mlp_ratio"}
VALUES = [
    ("0.1", set()),
    ("False", set()),
    ("", set()),
    (["2", "2"], set()),
    ((1.0, 2.0), set()),
    ({"type": 3}, {"init_cfg"}),  # looked up in a registry later
    (-3, {"out_indices"}),
    (float("inf"), set()),
    (1.5, NUMBERS),
    (None, {"init_cfg", "pretrained", "qk_scale"}),
]


def options_of(name):
    """Names of the options that the class of a backbone, and those it inherits from, know."""
    version = getattr(MODULES[name], name)
    constructors = [cls.__init__ for cls in version.__mro__ if cls.__module__ == MODULES[name].__name__]
    own = {option for constructor in constructors for option in inspect.signature(constructor).parameters}
    return sorted((own | set(MODULES[name].PORTED)) - {"self", "options"})


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize(("value", "meaningful"), VALUES)
def test_a_wrong_value_is_an_error_that_names_the_option(name, value, meaningful):
    version, ported = getattr(MODULES[name], name), MODULES[name].PORTED
    for option in options_of(name):
        if option in meaningful:
            continue
        with torch.device("meta"), pytest.raises((TypeError, ValueError)) as caught:
            version(**{option: value})
            pytest.fail(f"{option}={value!r} was accepted")
        names = {option, getattr(ported.get(option), "field", option)}  # of a host's option, or of what it becomes
        assert any(word in str(caught.value) for word in names), (option, str(caught.value))
        where = traceback.extract_tb(caught.tb)[-1].filename
        assert "mmvisattn" in where, (option, where)
