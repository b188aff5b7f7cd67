"""The settings of configs, and short names made of the settings that vary among them."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product

from ragsweep.core.results import Result
from ragsweep.stats.comparable import changes_scores

_DECIMAL = re.compile(r"(?<![^\s=\[,])-?(\d+\.\d+)(?:e[+-]?\d+)?(?![^\s,\]])")
"""Matches a decimal number that is a complete value; a number within a word, as in gpt-4.10, does not match."""
_NUMBER_SIGN = re.compile(r"^#\d+ ")

LONGEST = 60
"""Maximum length of a config's name within a sentence, in characters."""
BARE = ("none", "null", "default", "")
"""Options whose names are meaningless without their group."""
DELETED = "~"
"""The value of a setting whose key an override deletes."""


def own_settings(result: Result) -> dict[str, str]:
    """Return a config's overrides, without those that cannot change a score: key -> value, both as strings.

    Values are resolved, except "auto", as in the config's name. The value of a deleted key is `DELETED`.
    """
    lines = ((line[:1], *line.lstrip("+~").partition("=")) for line in result.run.overrides)
    given = {key: DELETED if sign == "~" else value for sign, key, _, value in lines if changes_scores(key)}
    return {key: value if value == "auto" else result.run.parameters.get(key, value) for key, value in given.items()}


def all_settings(results: Sequence[Result]) -> list[dict[str, str]]:
    """Return, for each config, the values of all settings that any config overrides: key -> value, as strings.

    A setting that all configs override has the value of the override; any other has its resolved value (for "auto", the
    selected value). Missing settings, and a budget that only some configs (such as a baseline) override, are omitted.
    """
    own = [own_settings(one) for one in results]
    found = dict.fromkeys(key for one in own for key in one)
    shared = [key for key in found if all(key in one for one in own)]
    keys = [key for key in found if not key.startswith("budget.") or key in shared]
    pairs = zip(results, own, strict=True)
    every = [{**typed, **one.run.parameters, **{key: typed[key] for key in shared}} for one, typed in pairs]
    return [{key: values[key] for key in keys if values.get(key, DELETED) != DELETED} for values in every]


def label_configs(configs: Sequence[Mapping[str, str]], groups: Collection[str]) -> list[str]:
    """Name each config by the settings that differ among the configs, as in ``hybrid_rrf k=50 k1=1.98 +late``.

    The names are "" if no setting differs.

    Args:
        configs: The settings of each config as key -> value, both strings.
        groups: The keys that select an option of a config group; an option is written without its key unless the
            option is in `BARE` or another group has the same option.
    """
    varying = varying_keys(configs)
    paths = {key: last_parts({config[key] for config in configs if key in config}) for key in varying}
    shown = [{key: paths[key].get(config[key], config[key]) for key in config if key in paths} for config in configs]
    return [label(settings, groups, varying) for settings in shown]


def varying_keys(configs: Sequence[Mapping[str, str]]) -> list[str]:
    """List the keys whose values differ among configs, in the order in which the keys first occur.

    Keys of targets, which do not change results, are omitted if any other key differs.
    """
    keys = dict.fromkeys(key for config in configs for key in config)
    varying = [key for key in keys if len({config.get(key) for config in configs}) > 1]
    return [key for key in varying if not key.startswith("targets")] or varying


def label(settings: Mapping[str, str], groups: Collection[str], keys: Collection[str] = ()) -> str:
    """Format settings briefly, as in ``bm25 k1=1.2 +late``; ``groups`` is as in `label_configs`.

    Keys are shortened, but remain distinct among the keys of ``settings`` and ``keys``. A key that begins with ``~`` is
    a deletion.
    """
    names = short_keys([*dict.fromkeys([*keys, *settings])])
    options = Counter(value for key, value in settings.items() if key in groups)
    words = []
    for key, value in settings.items():
        if key.startswith("~"):
            words.append(f"~{names[key].removeprefix('~')}")
        elif value in ("true", "false"):
            words.append(f"{'+' if value == 'true' else '-'}{names[key]}")
        elif key in groups and options[value] == 1 and value not in BARE:
            words.append(value)
        else:
            words.append(f"{names[key]}={'_'.join(value.split())}")
    return " ".join(words)


def short_keys(keys: Sequence[str]) -> dict[str, str]:
    """Map each dotted key to the fewest of its last parts that distinguish the key from all others."""
    parts = {key: re.split(r"[./@]", key.lstrip("+~")) for key in keys}
    names, most = {}, max(map(len, parts.values()), default=1)
    for key in keys:
        ends = ((".".join(parts[key][-n:]), n) for n in range(1, most + 1))
        unique = (end for end, n in ends if sum(".".join(parts[one][-n:]) == end for one in keys) == 1)
        names[key] = next(unique, key)
    return names


def last_parts(values: Collection[str]) -> dict[str, str]:
    """Map each path among ``values`` to its last part; return an empty dict if two paths have the same last part."""
    last = {
        value: value.rstrip("/").rpartition("/")[2] for value in values if value.startswith(("/", "./", "../", "~/"))
    }
    return last if len(set(last.values())) == len(last) else {}


def rounded(name: str, digits: int = 3) -> str:
    """Round decimal values in a name to ``digits`` significant digits, but keep all integer digits below a million.

    Values with fewer digits, and numbers within words, such as gpt-4.10, are unchanged.
    """
    return _DECIMAL.sub(lambda found: _rounded(found, digits), name)


def _rounded(found: re.Match[str], digits: int) -> str:
    value = float(found[0])
    most = max(digits, len(str(int(abs(value))))) if abs(value) < 1e6 else digits
    # A short number is not changed: 1.10 may be a version.
    return f"{value:.{most}g}" if len(found[1].replace(".", "").lstrip("0")) > most else found[0]


def digits_for(names: Iterable[str]) -> int:
    """Return the smallest number of significant digits, from 3 to 17, for which `rounded` keeps the names distinct."""
    distinct, digits = set(names), 3
    while digits < 17 and len({rounded(name, digits) for name in distinct}) < len(distinct):
        digits += 1
    return digits


def number_configs(names: Mapping[int, str]) -> dict[int, str]:
    """Put the number of each job, counted from 1, before the job's label, as in ``#3 top_k=10``.

    ``names`` maps jobs, counted from 0, to labels. Decimal numbers have three significant digits, or more if three do
    not distinguish the configs.
    """
    digits = digits_for(names.values())
    return {job: f"#{job + 1} {rounded(name, digits)}" for job, name in names.items()}


def without_number(name: str) -> str:
    """Return a config's name without the number at its beginning, if any."""
    return _NUMBER_SIGN.sub("", name)


def short(name: str) -> str:
    """Round the decimal numbers in a name, and shorten the name to at most `LONGEST` characters.

    A numbered name is shortened at the end; other names, and numbered names with a very long first setting, are
    shortened in the middle.
    """
    name = rounded(name)
    if _NUMBER_SIGN.match(name) and len(name) > LONGEST and " " in (start := name[: LONGEST - 3].rpartition(" ")[0]):
        return f"{start} ..."
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2 - 2]}...{name[-LONGEST // 2 + 2 :]}"


def lacking(
    values: Sequence[Sequence[str]],
    names: Sequence[Sequence[str]],
    present: Collection[tuple[str | None, ...]],
    most: int = 3,
) -> str:
    """Format the combinations not in ``present``, as in ``, without A C, B D``; "" if there are more than ``most``.

    ``values`` has the values of each setting, and ``names`` has the text of each value. Each item of ``present`` has
    one value of each setting.
    """
    if math.prod(map(len, values)) - len(present) > most:
        return ""
    absent = [pairs for pairs in product(*map(zip, values, names)) if tuple(value for value, _ in pairs) not in present]
    return ", without " + ", ".join(" ".join(name for _, name in pairs) for pairs in absent)


def read_numbers(values: Sequence[str]) -> tuple[float, ...] | None:
    """Return values as numbers; None if there are no values, or if any of them is not a finite number."""
    try:
        found = tuple(map(float, values))
    except ValueError:
        return None
    return found if found and all(map(math.isfinite, found)) else None


def first_names(names: Sequence[str], most: int) -> str:
    """Join the first ``most`` names with commas and count the rest; a single remaining name is also written out."""
    kept = names if len(names) <= most + 1 else names[:most]
    more = f" and {len(names) - most:,} more" if len(kept) < len(names) else ""
    return f"{', '.join(kept)}{more}"
