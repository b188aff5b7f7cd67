"""Choose the questions of a set by stratum, type and reasoning class; drop duplicates and near-copies of passages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragsweep.core.types import Floats
from ragsweep.golden.golden_set import chance
from ragsweep_golden.building.drafts import Sources
from ragsweep_golden.building.settings import BuildSettings
from ragsweep_golden.gates.built_measures import DUPLICATE, HARD
from ragsweep_golden.gates.judging import find_faulty
from ragsweep_golden.gates.subject import Embed, Subject
from ragsweep_golden.sets.entries import SINGLE_FACT, UNANSWERABLE_TYPES, Entry, value

MOST_SINGLE_FACTS = 0.55  # maximum share of single-fact questions; the gates require less than .6
LEAST_HARD = 0.12  # wanted share of hard questions; gate G5-4 requires .1
MOST_OF_A_CHUNK = 3  # maximum number of questions about one chunk
FAILS = "fails"  # first word of the reason why an entry that fails a gate is dropped


def drop_copies(
    entries: Sequence[Entry], questions: Floats | None, passages: Floats | None, independent: float
) -> tuple[list[int], dict[int, str]]:
    """Return the positions of the entries to keep, and why the others are dropped, by position.

    An entry is dropped if its question duplicates an earlier kept question, or is a near-copy of its passage. Questions
    with the same text, ignoring case, are duplicates. ``questions`` and ``passages`` are unit vectors, one row per
    entry; the vector of a blank text is NaN. With ``questions``, questions with a cosine of at least DUPLICATE are also
    duplicates. With both arrays, a question is a near-copy if its cosine with its passage is at least ``independent``.
    """
    kept: list[int] = []
    dropped: dict[int, str] = {}
    seen: set[str] = set()
    for n, entry in enumerate(entries):
        words = entry["question"].casefold()
        nearest = float(np.fmax.reduce(questions[kept] @ questions[n], initial=-1)) if questions is not None else -1.0
        own = float(questions[n] @ passages[n]) if questions is not None and passages is not None else -1.0
        if words in seen or nearest >= DUPLICATE:
            how = "the same words" if words in seen else f"similarity {nearest:.2f}"
            dropped[n] = f"duplicates an earlier question ({how})"
        elif own >= independent:
            dropped[n] = f"repeats its passage (similarity {own:.2f})"
        else:
            kept.append(n)
            seen.add(words)
    return kept, dropped


def choose(entries: Sequence[Entry], settings: BuildSettings, quotas: Mapping[str, int]) -> list[Entry]:
    """Choose at most ``settings.questions`` entries, and return them in input order.

    ``quotas`` maps a stratum to its number of answerable questions. If there are too few unanswerable questions, more
    answerable ones are chosen. If there are too few answerable questions, fewer unanswerable ones are chosen, so that
    their share is at most ``settings.unanswerable``.
    """
    answerable = [one for one in entries if one.get("answerable", True)]
    others = [one for one in entries if not one.get("answerable", True)]
    of_these = min(round(settings.questions * settings.unanswerable), len(others))
    chosen = choose_answerable(answerable, settings.questions - of_these, settings, quotas)
    if len(chosen) + of_these < settings.questions:
        of_these = min(of_these, round(len(chosen) * settings.unanswerable / (1 - settings.unanswerable)))
    languages = Counter(one.get("language") for one in chosen)
    ids = {one["id"] for one in [*chosen, *choose_unanswerable(others, of_these, settings.minimums, languages)]}
    return [one for one in entries if one["id"] in ids]


def _traits(entry: Entry) -> dict[str, Any]:
    return {
        "stratum": str(value(entry, "classification", "stratum") or ""),
        "kind": str(value(entry, "classification", "question_type") or ""),
        "chunk": str(value(entry, "provenance", "chunk_id")),
        "pattern": str(value(entry, "processing", "pattern")),
        "is_single": value(entry, "classification", "reasoning_class") == SINGLE_FACT,
        "is_hard": float(value(entry, "classification", "difficulty") or 0) >= HARD,
    }


def choose_answerable(
    entries: Sequence[Entry], count: int, settings: BuildSettings, quotas: Mapping[str, int]
) -> list[Entry]:
    """Return at most ``count`` entries, with at most MOST_OF_A_CHUNK of them about the same chunk.

    The entries are chosen one at a time, each by these preferences, the most important first: no single-fact question
    that would raise the share of such questions above MOST_SINGLE_FACTS; a hard question, while the share of such
    questions is below LEAST_HARD; a stratum below its quota; the chunk with the fewest chosen questions; the type
    furthest below its share of the mix; no single-fact question; the pattern with the fewest chosen questions. Ties are
    broken at random.
    """
    order = sorted(entries, key=lambda one: chance(settings.seed, one["question"]))
    left = {n: _traits(one) for n, one in enumerate(order)}
    chosen: list[Entry] = []
    taken = Counter[tuple[str, Any]]()  # (trait, value) -> chosen questions

    def need(n: int) -> tuple[float, ...]:
        one, following = left[n], len(chosen) + 1
        too_many = taken["is_single", True] + 1 > MOST_SINGLE_FACTS * following
        return (
            not (too_many and one["is_single"]),
            one["is_hard"] and taken["is_hard", True] < LEAST_HARD * following,
            taken["stratum", one["stratum"]] < quotas.get(one["stratum"], 0),
            -taken["chunk", one["chunk"]],
            settings.mix.get(one["kind"], 0.0) * following - taken["kind", one["kind"]],
            not one["is_single"],
            -taken["pattern", one["pattern"]],
        )

    while len(chosen) < count and (possible := [n for n in left if taken["chunk", left[n]["chunk"]] < MOST_OF_A_CHUNK]):
        best = max(possible, key=need)
        taken.update(left.pop(best).items())
        chosen.append(order[best])
    return chosen


def choose_unanswerable(
    entries: Sequence[Entry], count: int, minimums: Mapping[str, int], languages: Counter[str | None]
) -> list[Entry]:
    """Return at most ``count`` entries: first the minimum of each type, then entries of the least chosen type.

    Types with no remaining entries are skipped. As far as possible, languages occur in proportion to their counts in
    ``languages``.
    """
    left: dict[str, list[Entry]] = {
        kind: [one for one in entries if one.get("unanswerable_type") == kind] for kind in UNANSWERABLE_TYPES
    }
    chosen: list[Entry] = []
    taken = Counter[Any]()  # type, language, (type, language) -> chosen questions

    def need(one: Entry) -> float:
        kind, language = one["unanswerable_type"], one.get("language")
        return languages[language] / (taken[language] + taken[kind, language] + 1)

    while len(chosen) < count and (filled := [kind for kind in left if left[kind]]):
        short = [kind for kind in filled if taken[kind] < minimums.get(kind, 0)]
        kind = min(short or filled, key=lambda kind: taken[kind] / minimums[kind] if short else taken[kind])
        best = max(left[kind], key=need)
        left[kind].remove(best)
        chosen.append(best)
        taken.update([kind, best.get("language"), (kind, best.get("language"))])
    return chosen


def select(
    entries: Sequence[Entry], settings: BuildSettings, sources: Sources, embed: Embed | None
) -> list[dict[str, Any]]:
    """Choose the entries of the set; return a row per entry with its id and, if it is not chosen, the reason.

    Entries that fail a gate (see ``find_faulty``), duplicates and near-copies (see ``drop_copies``) are not chosen.
    """
    subject = Subject(entries, sources.corpus, sources.spans)
    subject = subject if embed is None else subject.with_vectors(embed)
    reason_of = {name: f"{FAILS} {why}" for name, why in find_faulty(subject).items()}
    kept, dropped = drop_copies(entries, subject.questions, subject.passages, settings.independent)
    possible = [entries[n] for n in kept if entries[n]["id"] not in reason_of]
    quotas = {one.name: one.quota for one in sources.strata.values()}
    chosen = {one["id"] for one in choose(possible, settings, quotas)}
    reason_of |= {entries[n]["id"]: why for n, why in dropped.items()}
    return [
        {"id": one["id"]}
        if one["id"] in chosen
        else {"id": one["id"], "reason": reason_of.get(one["id"], "enough of its kind")}
        for one in entries
    ]
