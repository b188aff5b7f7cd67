"""Requests beside a reference: what is planted is named, by its own name only, and nothing else is an alarm."""

from dataclasses import replace

import numpy as np
import pytest

from ragsweep.parts.languages import question_form
from ragsweep.parts.tracking.models import ModelVersion
from ragsweep.parts.tracking.served_traces import ServedStep, ServedTrace
from ragsweep.stats.drift import TOLERANCE
from ragsweep_serving.commands.watch_findings import Watch
from ragsweep_serving.commands.watch_report import results
from ragsweep_serving.reference import Reference
from ragsweep_serving.watching import Lack, RequestComparison, Requests, is_alarm

COUNT = 120
KNOWN = frozenset({"where", "keep", "stove", "people", *(f"thing{n}" for n in range(COUNT))})


def draw(seed: int) -> dict[str, list[float]]:
    random = np.random.default_rng(seed)
    tops, rerank = random.normal(5, 1, COUNT), random.lognormal(2, 0.3, COUNT)
    return {
        "top_score/retrieve": tops.tolist(),
        "gap/retrieve": random.exponential(1, COUNT).tolist(),
        "ms/retrieve": (rerank / 2).tolist(),
        "ms/rerank": rerank.tolist(),
        "ms/total": (1.5 * rerank).tolist(),
    }


def traces(seed: int = 2) -> list[ServedTrace]:
    columns = draw(seed)
    return [
        ServedTrace(
            "handbook", "b", f"where do the people keep the thing{n}", 1.0, columns["ms/total"][n],
            [ServedStep("retrieve", columns["ms/retrieve"][n], columns["top_score/retrieve"][n],
                        columns["gap/retrieve"][n]),
             ServedStep("rerank", columns["ms/rerank"][n])],
            query="q", results=3, answer="in the shed", abstained=False, tokens_in=100 + n, tokens_out=10, money=0.01,
        ) for n in range(COUNT)
    ]  # fmt: skip


def reference() -> Reference:
    zeros = dict.fromkeys(("unknown", "abstained", "failed"), [0.0] * COUNT)
    tokens = [110.0 + n for n in range(COUNT)]
    numbers = {**draw(1), **zeros, "results": [3.0] * COUNT, "tokens": tokens, "money": [0.01] * COUNT}
    names = [str(n) for n in range(COUNT)]
    return Reference("handbook", "b", 1.0, names, [1.0] * COUNT, ["en"] * COUNT, ["where"] * COUNT, numbers)


def alarms(given: list[ServedTrace], stale: list[float] | None = None) -> set[str]:
    compared = RequestComparison(Requests(given, KNOWN), reference(), TOLERANCE, stale)
    return {one.name for one in compared.drifts(0.05) if is_alarm(one)}


def changed(**values: object) -> list[ServedTrace]:
    return [replace(one, **values) for one in traces()]  # type: ignore[arg-type]


def test_like_requests_are_no_alarm() -> None:
    assert alarms(traces(), [0.0] * COUNT) == set()


def slower(factor: float) -> list[ServedTrace]:
    return [replace(one, steps=[one.steps[0], replace(one.steps[1], milliseconds=factor * one.steps[1].milliseconds)])
            for one in traces()]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (changed(results=0), {"empty_share"}),
        (changed(abstained=True), {"refused_share"}),
        (changed(failed="timeout"), {"failed_share"}),
        (changed(tokens_out=1000), {"tokens"}),
        (changed(money=0.02), {"money"}),
        (slower(3.0), {"latency/rerank"}),
        (slower(0.2), set()),  # a lower latency is not an alarm
        ([replace(one, question=f"where do the people keep the {'q' * n}uark") for n, one in enumerate(traces(), 1)],
         {"unknown_words"}),
        ([replace(one, question=f"où est-ce que les gens gardent la chose {n}") for n, one in enumerate(traces())],
         {"language/en", "language/fr"}),
        ([replace(one, steps=[replace(one.steps[0], top_score=one.steps[0].top_score - 2), one.steps[1]])
          for one in traces()], {"top_score/retrieve"}),
    ],
)  # fmt: skip
def test_what_is_planted_is_named(given: list[ServedTrace], named: set[str]) -> None:
    assert alarms(given) == named


def test_stale_documents_are_named_and_new_languages_listed() -> None:
    assert alarms(traces(), [float(n % 3 == 0) for n in range(COUNT)]) == {"stale_share"}
    french = [replace(one, question="où est-ce que les gens gardent leurs choses") for one in traces()[:30]]
    compared = RequestComparison(Requests([*french, *traces()], KNOWN), reference(), TOLERANCE)
    assert compared.lacks()[0][:3] == Lack("language", "fr", 30, compared.lacks()[0].measure)[:3]


def test_exception_is_a_failure_and_no_empty_result() -> None:
    failed = [ServedTrace("handbook", "b", f"where is thing{n}", 1.0, 1.0, failed="OSError") for n in range(COUNT)]
    assert alarms(failed) == {"failed_share"}


@pytest.mark.parametrize(
    ("given", "documents"),
    [
        (traces(), 4),  # evaluated questions on four documents
        ([*traces()[:20], *traces()[:1] * 1000], COUNT),  # twenty different questions, but one is nearly all requests
    ],
)
def test_watch_that_can_compare_nothing_is_undecided(given: list[ServedTrace], documents: int) -> None:
    before = replace(reference(), cluster=[str(n % documents) for n in range(COUNT)])
    requests = Requests(given, KNOWN)
    compared = RequestComparison(requests, before, TOLERANCE)
    version = ModelVersion("handbook", "1", {})
    found = Watch(version, 0.0, requests, before, compared.drifts(0.05), compared.lacks(), compared.measures(), [])
    assert found.decision == "too few"
    said = " ".join(one.text for one in results(found))
    assert "No quantity can be compared" in said
    assert "No drift" not in said


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("How many laptops may I have?", "how many"),
        ("In which year was it built?", "which"),
        ("Can I take it home?", "yes or no"),
        ("laptop lost insurance", "keywords"),
        ("Please send me the form and the rules that apply", "other"),
        ("Pourquoi le contrat est-il nul ?", "why"),
        ("Est-ce que je peux le garder ?", "yes or no"),
        ("Wie viele Tage habe ich dafür?", "how many"),
        ("¿Dónde está la oficina de correos?", "where"),
    ],
)
def test_form_is_told_by_the_first_words(text: str, form: str) -> None:
    assert question_form(text) == form


def test_the_evaluated_quantiles_are_weighted_as_their_questions() -> None:
    heavy, light = 48, COUNT - 48  # weights of 4800 and 72: 98.5 % of the sum is at the lower latency
    columns = {"ms/total": [10.0] * heavy + [500.0] * light, "ms/retrieve": [0.1] * heavy + [500.0] * light}
    before = replace(reference(), weight=[100.0] * heavy + [1.0] * light)
    before = replace(before, numbers={**before.numbers, **columns})
    quick = [replace(one, steps=[replace(one.steps[0], milliseconds=0.1)]) for one in traces()]
    compared = RequestComparison(Requests(quick, KNOWN), before, TOLERANCE)
    measures, drifts = compared.measures(), {one.name: one for one in compared.drifts(0.05)}
    assert [measures[f"latency_p{p}_ms"].before for p in (50, 95, 99)] == [10, 10, 500]
    assert drifts["latency/total"].before == 10
    assert "latency/retrieve" not in drifts  # its weighted median is below 1 ms, as that of the requests
