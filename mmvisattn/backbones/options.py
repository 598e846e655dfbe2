"""The option names of MMDetection, MMSegmentation and MMPretrain.

A config written for a host's own backbone ports by changing its ``type``. Each family has one table that says what
becomes of the option names that are not its own; any other name is an error that suggests the nearest one.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from mmvisattn.backbones.arch import resolve_arch
from mmvisattn.backbones.suggest import did_you_mean
from mmvisattn.layers.config_types import check_types

Constructor = Callable[..., None]


@dataclasses.dataclass(frozen=True)
class IntoArch:
    """A host option that replaces one field of the architecture.

    Args:
        field: Name of the field.
        translate: As in :class:`Becomes`.
    """

    field: str
    translate: Callable[[Any], Any] = lambda value: value


@dataclasses.dataclass(frozen=True)
class Becomes:
    """A host option that stands for an option of the backbone.

    Args:
        option: Name of the backbone's own option.
        translate: Map from the host's value to that of the backbone. It raises ``ValueError``, with a message that
            says what is allowed, for a value that has no translation.
    """

    option: str
    translate: Callable[[Any], Any] = lambda value: value


@dataclasses.dataclass(frozen=True)
class Only:
    """A host option that is accepted with some values only, because they ask for what the backbone does anyway.

    Args:
        values: The accepted values; a list counts as the tuple of its items.
        instead: What to write for another value, if there is a way.
    """

    values: tuple[Any, ...]
    instead: str = ""


Ported = Mapping[str, IntoArch | Becomes | Only]


def accepts_host_options(ported: Ported) -> Callable[[Constructor], Constructor]:
    """Let a backbone's constructor take the option names in ``ported`` beside its own.

    Args:
        ported: Host option names and what becomes of them. :class:`IntoArch` options change fields of the architecture
            that ``arch`` names in the ``archs`` of the class.

    Returns:
        A decorator for ``__init__``. The decorated constructor raises ``TypeError`` for an unknown option or one
        given under two names or with a value of another type, and ``ValueError`` for a value that is not possible
        here.
    """

    def decorate(init: Constructor) -> Constructor:
        signature = inspect.signature(init)

        @functools.wraps(init)
        def init_with_host_options(self: Any, *args: Any, **options: Any) -> None:
            foreign = {name: options.pop(name) for name in list(options) if name not in signature.parameters}
            given = signature.bind_partial(self, *args, **options).arguments
            arch_fields: dict[str, Any] = {}
            for name, value in foreign.items():
                rule = _find_rule(type(self).__name__, name, ported, signature.parameters)
                if isinstance(rule, IntoArch):
                    new = _translate(name, value, rule)
                    if arch_fields.setdefault(rule.field, new) != new:
                        raise ValueError(f"{name}={value!r} contradicts another option about the same thing")
                elif isinstance(rule, Becomes):
                    if rule.option in given:
                        raise TypeError(f"{name} and {rule.option} are two names of one option, give only one of them")
                    given[rule.option] = _translate(name, value, rule)
                else:
                    _check_only(name, value, rule)
            if arch_fields:
                arch = resolve_arch(given.get("arch", signature.parameters["arch"].default), type(self).archs)
                given["arch"] = dataclasses.replace(arch, **arch_fields)
            check_types({name: value for name, value in given.items() if name != "arch"}, init)  # arch: resolve_arch
            init(**given)

        return init_with_host_options

    return decorate


def _find_rule(
    backbone: str, name: str, ported: Ported, own: Mapping[str, inspect.Parameter]
) -> IntoArch | Becomes | Only:
    if name not in ported:
        options = [option for option in own if option != "self"]
        hint = did_you_mean(name, [*options, *ported]) or f"; the options are {options}"
        raise TypeError(f"{backbone} has no option {name!r}{hint}")
    return ported[name]


def one_of(meanings: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """Return the translation of a host's values into ours that a table gives.

    Example:
        >>> one_of({True: "pad", False: "shrink"})(False)
        'shrink'
    """

    def translate(value: Any) -> Any:
        if value not in list(meanings):  # a list, since values of a config need not be hashable
            raise ValueError(f"it must be {' or '.join(map(repr, meanings))}")
        return meanings[value]

    return translate


def _translate(name: str, value: Any, rule: IntoArch | Becomes) -> Any:
    try:
        return rule.translate(value)
    except ValueError as error:
        raise ValueError(f"{name} cannot be {value!r}: {error}") from None


def _check_only(name: str, value: Any, rule: Only) -> None:
    plain = tuple(value) if isinstance(value, list) else value
    if plain not in rule.values:
        allowed = " or ".join(repr(allowed) for allowed in rule.values)
        raise ValueError(f"{name} must be {allowed}, got {value!r}" + (f"; {rule.instead}" if rule.instead else ""))
