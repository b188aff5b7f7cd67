"""Read and check the settings of ``ragsweep golden build`` (see conf/golden.yaml)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError, nearest
from ragsweep_golden.sets.entries import LANGUAGES, UNANSWERABLE_TYPES


class Quotas(NamedTuple):
    """The rules by which questions are divided among strata.

    ``shares``: the share of the questions for each priority, from priority 1 on. ``fewest``: the minimum number of
    questions of a stratum. ``cap``: the maximum number of questions per chunk of a stratum.
    """

    shares: Sequence[float] = (0.40, 0.45, 0.10, 0.05)
    fewest: int = 5
    cap: float = 0.5


class BuildSettings(NamedTuple):
    """The settings of a build.

    ``questions``: the number of questions, including the share ``unanswerable``. ``clusters``: the number of clusters,
    or 0 if the strata are folders. ``patterns``: stratum -> patterns of document ids. ``priorities``: stratum ->
    priority, where 1 is the highest. ``mix``: question type -> share of the answerable questions. ``minimums``:
    unanswerable type -> minimum number of questions. ``independent``: the lowest cosine similarity of a question and
    its passage at which the question is dropped.
    """

    languages: Sequence[str]
    questions: int
    unanswerable: float
    seed: int
    clusters: int
    patterns: Mapping[str, Sequence[str]]
    priorities: Mapping[str, int]
    quotas: Quotas
    mix: Mapping[str, float]
    minimums: Mapping[str, int]
    independent: float


def read_settings(values: Mapping[str, Any]) -> BuildSettings:
    """Return the settings of a build from the composed config. Raises ConfigError for an invalid value."""
    language, mix, strata = values["language"], values["mix"], values["strata"]
    if language not in ("auto", *LANGUAGES):
        raise ConfigError(f"language: unsupported language {language!r}{nearest(str(language), ['auto', *LANGUAGES])}")
    if str(mix) not in values["mixes"]:
        raise ConfigError(f"mix: no mix {mix!r}{nearest(str(mix), values['mixes'])}")
    if strata["by"] not in ("folder", "clusters"):
        raise ConfigError(f"strata.by: must be folder or clusters, got {strata['by']!r}")
    for key, least in (("questions", 1), ("seed", 0)):
        if type(values[key]) is not int or values[key] < least:
            raise ConfigError(f"{key}: must be a whole number of at least {least}, got {values[key]!r}")
    if not isinstance(values["unanswerable"], int | float) or not 0 <= values["unanswerable"] < 1:
        raise ConfigError(f"unanswerable: must be at least 0 and below 1, got {values['unanswerable']!r}")
    for kind in values["minimums"]:
        if kind not in UNANSWERABLE_TYPES:
            raise ConfigError(f"minimums.{kind}: no such type{nearest(kind, UNANSWERABLE_TYPES)}")
    _check_strata(strata, values["minimums"])
    return BuildSettings(
        languages=tuple(LANGUAGES) if language == "auto" else (language,),
        questions=values["questions"],
        unanswerable=values["unanswerable"],
        seed=values["seed"],
        clusters=strata["clusters"] if strata["by"] == "clusters" else 0,
        patterns=strata["patterns"],
        priorities=strata["priorities"],
        quotas=Quotas(tuple(strata["shares"]), strata["fewest"], strata["cap"]),
        mix=values["mixes"][str(mix)],
        minimums=values["minimums"],
        independent=values["gates"].get("G5-2", {"threshold": math.inf})["threshold"],
    )


def _check_strata(strata: Mapping[str, Any], minimums: Mapping[str, Any]) -> None:
    counts = {"strata.clusters": strata["clusters"], "strata.fewest": strata["fewest"]}
    for key, given in {**counts, **{f"minimums.{name}": given for name, given in minimums.items()}}.items():
        least = 1 if key == "strata.clusters" and strata["by"] == "clusters" else 0
        if isinstance(given, bool) or not isinstance(given, int) or given < least:
            raise ConfigError(f"{key}: must be a whole number of at least {least}, got {given!r}")
    cap, shares = strata["cap"], strata["shares"]
    if not _is_amount(cap):
        raise ConfigError(f"strata.cap: must be a number of at least 0, such as .5, got {cap!r}")
    if not isinstance(shares, list) or not shares or not all(map(_is_amount, shares)):
        way = "must be a list of numbers of at least 0, such as [.4, .45, .15]"
        raise ConfigError(f"strata.shares: {way}, got {shares!r}")
    for name, given in strata["patterns"].items():
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise ConfigError(f"strata.patterns.{name}: must be a list, such as ['*/faq/*'], got {given!r}")


def _is_amount(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and given >= 0
