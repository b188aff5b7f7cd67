"""The first trial of a search: the declared baseline if it is in the space, else the space's defaults."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hydra.errors import HydraException

from optuna_sweeper.parameters import parse_override
from optuna_sweeper.signatures import SearchComposer
from optuna_sweeper.space import Space, merge_overrides

_OVERRIDE = re.compile(r"""(?:'[^']*'|"[^"]*"|\[[^]]*\]|\{[^}]*\}|\([^)]*\)|\S)+""")


class TrialZero(NamedTuple):
    """The overrides of the first trial, and the reason why a declared baseline is outside the space, or ""."""

    overrides: tuple[str, ...]
    outside: str = ""


def read_baseline(setting: Any) -> tuple[str, ...] | None:
    """Read the key ``baseline`` as overrides, such as "retriever=bm25 top_k=5"; None for null, a number or a name.

    Raises HydraException for an invalid override, or an override with several values.
    """
    if not isinstance(setting, str) or "=" not in setting:
        return None
    lines = tuple(_OVERRIDE.findall(setting))
    for line in lines:
        if parse_override(line, "baseline").is_sweep_override():
            raise HydraException(f'baseline: "{line}" names several values; give one, because a baseline is one config')
    return lines


def trial_zero(space: Space, composer: SearchComposer, declared: Sequence[str] | None) -> TrialZero:
    """Return the declared baseline as the first trial if it is in the space, else the space's defaults and the reason.

    ``declared`` contains the overrides of the baseline; None if no baseline was declared.

    Raises HydraException if the baseline cannot be read, and one of ``composer.faults`` if the baseline cannot be
    composed.
    """
    outside = ""
    if declared is not None:
        lines = merge_overrides(space.fixed, declared)
        try:
            outside = _why_outside(space, composer, lines)
        except composer.faults as fault:
            with suppress(*composer.faults):
                composer.compose(declared)
                outside = str(fault).splitlines()[0].partition(";")[0]  # conflicts only with the fixed overrides
            if not outside:
                raise
        if not outside:
            return TrialZero(lines)
    return TrialZero(own_defaults(space, composer), outside)


def own_defaults(space: Space, composer: SearchComposer) -> tuple[str, ...]:
    """Return the overrides of the space's default config, in which every parameter has a value in its domain.

    A parameter whose domain contains the default that Hydra composes keeps this default, and needs no override. Any
    other parameter has the first of its choices or, with a range, the value nearest to the default (the low end if the
    default is not a number).
    """
    chosen: dict[str, str] = {}
    moved: dict[str, str] = {}
    for parameter in space.parameters:  # parents first: a child's default depends on the chosen option
        if parameter.exists(chosen):
            try:
                value = composer.values(space.overrides(moved), space.parameters).get(parameter.name)
            except composer.faults:  # for example, a searched key has no default
                value = None
            chosen[parameter.name] = parameter.domain.nearest(value)
            if parameter.domain.locate(value) is None:
                moved[parameter.name] = chosen[parameter.name]
    return space.overrides(moved)


def _why_outside(space: Space, composer: SearchComposer, lines: Sequence[str]) -> str:
    point, left = space.split_config(composer.values(lines, space.parameters))
    if left:
        return "; ".join(f"{name}={value} is not in the search space" for name, value in left.items())
    written, searched = (composer.compose(each).written for each in (lines, space.overrides(point)))
    differing = sorted(key for key in written.keys() | searched.keys() if written.get(key) != searched.get(key))
    return f"it differs in {', '.join(differing)} from every config of the search" if differing else ""
