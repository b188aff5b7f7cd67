"""Expand overrides into jobs, one for each combination of the swept values, separately for each case."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException

from optuna_sweeper.parameters import parse_override
from ragsweep.sweep.composing.trees import Options, parse, spell_value

CASES = "hydra.sweeper.cases"
MOST = 100_000
"""Maximum number of jobs in a sweep; a higher number indicates a mistyped range, or an attack."""


class JobCase(NamedTuple):
    """The overrides of one job, and the case that it comes from, if any."""

    overrides: tuple[str, ...]
    case: int | None = None  # index of the case
    keys: tuple[str, ...] = ()  # the keys that the case sets

    def blamed(self, fault: str) -> str:
        """Return the prefix ``hydra.sweeper.cases[2]: `` if the message ``fault`` names a key of the case, else "".

        Only the first line is searched, up to its first semicolon, because a remedy follows the semicolon.
        """
        fact = fault.partition("\n")[0].partition(";")[0]
        named = (rf"(?<![\w.]){re.escape(key)}(?![\w.])" for key in self.keys)
        return f"{CASES}[{self.case}]: " if any(re.search(name, fact) for name in named) else ""


def expand(
    typed: Sequence[str],
    params: Mapping[str, str] | None = None,
    cases: Any = None,
    *,
    once: bool = True,
    options: Options | None = None,
) -> list[JobCase]:
    """Return a job for each combination of the swept values, as Hydra's basic sweeper does, separately for each case.

    A case is a list of overrides that may sweep values; it takes precedence over ``params``. The overrides ``typed`` on
    the command line take precedence over both. As everywhere in Hydra, a key keeps its first position and takes its
    last value. If ``once`` is true, only the first of several jobs with equal sets of overrides is kept; Hydra's basic
    sweeper keeps all of them. ``options`` lists the options of a group, for patterns such as
    ``retriever=glob(hybrid*)``.

    Raises HydraException for unreadable overrides, patterns that match no option, intervals, ``params`` or ``cases`` of
    the wrong form, empty ranges, and too many jobs.
    """
    if not isinstance(params or {}, Mapping):
        raise HydraException(f"hydra.sweeper.params: must be a mapping from keys to swept values, got {params!r}")
    for key in [key for key, value in (params or {}).items() if isinstance(value, Mapping) and "over" in value]:
        way = f"choose hydra/sweeper=optuna, or set {key} in {CASES}, together with the option that has this key"
        raise HydraException(f"hydra.sweeper.params.{key}: only a search has conditions (over, when); {way}")
    shared = [f"{key}={'null' if value is None else value}" for key, value in (params or {}).items()]
    general = _read(shared, "hydra.sweeper.params", options)
    last = _read(typed, "", options)
    jobs: list[JobCase] = []
    for number, case in _cases(cases):
        own = [] if number is None else _read(case, f"{CASES}[{number}]", options)
        keys = tuple(override.key_or_group for override in own)
        jobs += [JobCase(job, number, keys) for job in _product([*general, *own, *last])]
        if len(jobs) > MOST:
            raise HydraException(f"{CASES}: these cases make more than {MOST:,} jobs; list fewer cases or fewer values")
    if not once:
        return jobs
    first: dict[frozenset[str], JobCase] = {}
    for job in jobs:
        first.setdefault(frozenset(job.overrides), job)
    return list(first.values())


def _cases(cases: Any) -> list[tuple[int | None, list[str]]]:
    """Check the cases and return (number, case) for each; if ``cases`` is None, return one empty case without a number.

    Raises HydraException unless ``cases`` is None or a non-empty list of non-empty lists of overrides.
    """
    if cases is None:
        return [(None, [])]
    if not isinstance(cases, list) or not cases:
        way = 'write each case as a list of overrides, for example [["top_k=3", "depth=50,100"]]'
        raise HydraException(f"{CASES}: must be null or a list of at least one case, got {cases!r}; {way}")
    for number, case in enumerate(cases):
        where = f"{CASES}[{number}]"
        if not isinstance(case, list):
            line = case if isinstance(case, str) and "=" in case else "KEY=VALUE"
            given, lines = (dict(case), _as_lines(case)) if isinstance(case, Mapping) else (case, f'"{line}"')
            raise HydraException(f"{where}: must be a list of overrides, got {given!r}; write [{lines}]")
        if not case:
            raise HydraException(f"{where}: is empty; name at least one override, or remove the case")
        for before, line in zip([None, *case], case, strict=False):
            if isinstance(line, Mapping):
                raise HydraException(f"{where}: {dict(line)!r} is not an override; write {_as_lines(line)}")
            if not isinstance(line, str):
                quoted = f'quote an override with commas: "{before},{line}"' if before else "write KEY=VALUE"
                raise HydraException(f"{where}: {line!r} is not an override; {quoted}")
    return list(enumerate(cases))


def _as_lines(case: Mapping[Any, Any], prefix: str = "") -> str:
    return ", ".join(
        _as_lines(value, f"{prefix}{key}.") if isinstance(value, Mapping) else f'"{prefix}{key}={spell_value(value)}"'
        for key, value in case.items()
    )


def _read(lines: Sequence[str], where: str, options: Options | None) -> list[Override]:
    """Parse overrides; ``where`` is the config key that contains them, for error messages."""
    start, overrides = f"{where}: " if where else "", []
    for line in lines:
        override = parse_override(line, where)
        if options and isinstance(pattern := override.value(), Glob):
            known = options(override.key_or_group)
            if not (found := pattern.filter(known)):
                fact = f"the pattern matches no option; known: {', '.join(known)}"
                fact = fact if known else f"{override.key_or_group} is not a group of options; list its values"
                raise HydraException(f'{start}"{line}": {fact}')
            override = parse(f"{override.get_key_element()}={','.join(found)}")
        if override.is_sweep_override() and not override.is_discrete_sweep():
            raise HydraException(
                f'{start}"{line}": a grid accepts choices and ranges, but no intervals; write range(START,STOP), or'
                " choose hydra/sweeper=optuna"
            )
        overrides.append(override)
    return overrides


def _product(overrides: Iterable[Override]) -> Iterable[tuple[str, ...]]:
    choices: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if override.is_sweep_override():
            values = itertools.islice(override.sweep_string_iterator(), MOST + 1)
            choices[key] = [f"{key}={value}" for value in values]
        else:
            choices[key] = [f"{key}={override.get_value_element_as_str()}"]
        if math.prod(map(len, choices.values())) > MOST:
            raise HydraException(f'"{override.input_line}": the sweep has more than {MOST:,} jobs; name fewer values')
    if empty := [key for key, lines in choices.items() if not lines]:
        raise HydraException(f"{empty[0]}: its range has 0 values; correct its ends or its step")
    return itertools.product(*choices.values())
