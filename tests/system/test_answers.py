"""From a context to answers and verdicts: what is asked, what is shared, what goes wrong."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.identity import BuiltPart
from ragsweep.core.missing import CONVERSATIONAL, NO_REFERENCE, NOTHING_RETRIEVED
from ragsweep.core.question_texts import to_texts
from ragsweep.core.results import Result
from ragsweep.core.types import (
    Answer,
    Case,
    Dataset,
    EvaluationView,
    Evidence,
    GoldenSet,
    Judgement,
    PartTraits,
    Question,
    Request,
    Scores,
    Turn,
    Usage,
)
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.parts.metrics import ContextPrecision, ContextRecall, ContextTokens, Latency, Refusal
from ragsweep.parts.rerankers import NoReranker
from ragsweep.parts.retrievers import NoRetriever
from ragsweep.services.usage import NoPrices
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import plan
from ragsweep.stages.store import Store
from support.parts import Whole, Words, built, corpus, vector

HISTORY = (Turn("user", "hi"),)
QUESTIONS = GoldenSet((
    Question("cats", "cats in the yard", references=("dogs",), evidence=(Evidence("d1"), Evidence("d0"))),
    Question("code", "source code", references=("a compiler",), evidence=(Evidence("d2"),)),
    Question("later", "source code", history=HISTORY, evidence=(Evidence("d2"),)),
    Question("nothing", "xylophone", references=("none",), evidence=(Evidence("d4"),)),
    Question("thanks", "source thanks", needs_retrieval=False),
))  # fmt: skip


class Parrot:
    """Say what it was given; remember what it was asked. ``down``: questions that it fails at, once each."""

    TRAITS = PartTraits(version="1")

    def __init__(self, *down: str) -> None:
        self.asked: list[Request] = []
        self.down = set(down)

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer the last request first."""
        for n in reversed(range(len(requests))):
            request = requests[n]
            self.asked.append(request)
            if request.question in self.down:
                done(n, Answer(failed="timed out", usage=Usage(1)))
                continue
            said = " + ".join(passage.name for passage in request.passages)
            done(n, Answer(said, abstained=not said, seconds=0.25, usage=Usage(1, 10, 2), model="parrot"))


class Length:
    """Judge an answer by the length of what is used of it; remember the cases."""

    TRAITS = PartTraits(version="1")
    name, needs, unit, higher_is_better, quantile = "length", ("answers",), "", True, None
    bounds = (0.0, 1000.0)

    def __init__(self, *uses: str, down: str = "") -> None:
        self.uses = uses
        self.down = down
        self.cases: list[Case] = []

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Count characters."""
        for n, case in enumerate(cases):
            self.cases.append(case)
            failed = bool(self.down) and case.question == self.down
            done(n, Judgement(reason="timed out") if failed else Judgement(float(len(str(case)))))

    def score(self, view: EvaluationView) -> Scores:
        """Take the verdicts."""
        said = view.judgements[self.name]
        return Scores(np.array([one.value for one in said]), np.array([one.reason for one in said]))


def experiment(
    generator: Any = None,
    retriever: BuiltPart | None = None,
    judged: Any = None,
    top_k: int = 2,
    budget: int | None = None,
) -> Experiment:
    given = corpus()
    judges = {judged.name: BuiltPart(judged, built(judged, uses=list(judged.uses)).spec)} if judged else {}
    parts = Parts(
        given, built(Whole()), retriever or built(Words()), built(NoReranker()), 4, top_k, False, budget,
        built(generator) if generator else None, judges,
    )  # fmt: skip
    metrics = (ContextRecall(), ContextPrecision(), ContextTokens(), Refusal(), Latency(stage="generate"),
               *([judged] if judged else []))  # fmt: skip
    return Experiment("n", (), {}, {}, Dataset("toy", given, QUESTIONS), graph(parts), top_k, metrics, 0.5, "s", 0.98)


def evaluate(asked: Experiment, executor: Executor | None = None) -> Result:
    return Evaluator(executor or Executor()).evaluate(asked)


def untimed(result: Result) -> str:
    """Return the table of questions as text, without values that differ in each run, such as times."""
    return str({name: values for name, values in to_texts(result.questions).items() if name != "steps"})


def column(result: Result, name: str) -> list[Any]:
    return list(result.questions[name])


def test_every_question_is_answered_from_its_context_and_conversation_without() -> None:
    parrot = Parrot()
    result = evaluate(experiment(parrot))
    assert column(result, "answer") == ["d1 + d0", "d2 + d3", "d2 + d3", "", ""]
    assert column(result, "context")[:3] == [["d1", "d0"], ["d2", "d3"], ["d2", "d3"]]
    assert column(result, "abstained") == [False, False, False, True, True]
    asked = {(request.question, request.history): request for request in parrot.asked}
    assert len(asked) == len(parrot.asked) == 5
    assert asked["source code", HISTORY].passages == asked["source code", ()].passages
    assert asked["source thanks", ()].passages == ()
    assert asked["cats in the yard", ()].passages[0].text == corpus().texts[1]


def test_without_a_retriever_the_model_is_asked_alone() -> None:
    parrot = Parrot()
    evaluate(experiment(parrot, built(NoRetriever())))
    assert len(parrot.asked) == 5
    assert all(request.passages == () for request in parrot.asked)


def test_without_a_generator_there_are_no_answers() -> None:
    result = evaluate(experiment())
    assert "answer" not in result.questions
    assert result.summaries.usage == {}
    assert result.summaries.metrics["refusal"].n_scored == 0
    assert result.run.state == "COMPLETE"


def test_configs_that_hand_on_the_same_context_ask_once() -> None:
    parrot, executor = Parrot(), Executor()
    for bonus in (0.0, 1.0, 2.0):  # other scores, the same ranking
        result = evaluate(experiment(parrot, built(Words(bonus), bonus=bonus)), executor)
        assert result.summaries.usage["generate"] == {"calls": 5, "tokens_in": 50, "tokens_out": 10, "estimated": 0}
    assert len(parrot.asked) == 5
    evaluate(experiment(parrot, vector()), executor)
    names = [tuple(passage.name for passage in request.passages) for request in parrot.asked]
    assert len(set(zip([request.question for request in parrot.asked], names, [r.history for r in parrot.asked],
                       strict=True))) == len(parrot.asked)  # fmt: skip


def test_cold_warm_and_without_a_store_results_are_equal_and_warm_asks_nobody(tmp_path: Path) -> None:
    judge = Length("answer", "contexts")
    cold, warm, bare = (
        evaluate(experiment(Parrot(), judged=judge), Executor(store))
        for store in (Store(tmp_path, pytest.fail), Store(tmp_path, pytest.fail), None)
    )
    assert untimed(cold) == untimed(warm) == untimed(bare)
    assert str(cold.summaries.usage) == str(warm.summaries.usage) == str(bare.summaries.usage)
    assert len(judge.cases) == 2 * 2  # cold and bare; the two questions about code are one case
    assert {stage for stage, work in warm.run.stages.items() if work["executed"]} - {"latency"} == {"context"}


def test_budget_of_tokens_cuts_the_context_and_metrics_see_what_was_handed_on() -> None:
    free, tight = (evaluate(experiment(Parrot(), budget=budget)) for budget in (None, 8))
    assert column(free, "context")[0] == ["d1", "d0"]
    assert column(tight, "context") == [["d1"], ["d2"], ["d2"], [], []]
    assert column(tight, "context_cut") == [1, 1, 1, 0, 0]
    assert "context_cut" not in free.questions
    assert column(tight, "answer")[0] == "d1"
    assert column(tight, "context_tokens")[:2] == [6.0, 7.0]
    assert column(free, "context_recall")[0] == 1.0
    assert column(tight, "context_recall")[0] == 0.5
    assert column(tight, "context_precision")[:2] == [1.0, 1.0]
    assert column(evaluate(experiment(budget=8)), "context") == column(tight, "context")


def test_budget_leaves_out_what_does_not_fit_and_all_behind_it() -> None:
    from ragsweep.core.types import Rankings
    from ragsweep.parts.ranking import cut_to_budget

    positions = np.array([[0, 1, 2], [2, 0, -1], [1, 0, 2]], dtype=np.int32)
    found = cut_to_budget(Rankings(positions, positions.astype(np.float32), "c"), np.array([5, 9, 1]), 6)
    assert found.positions.tolist() == [[0, -1, -1], [2, 0, -1], [-1, -1, -1]]
    assert (found.scores == -np.inf).tolist() == (found.positions == -1).tolist()


def test_failure_is_an_outcome_with_its_bounds_and_is_asked_again_next_time(tmp_path: Path) -> None:
    parrot = Parrot("xylophone")
    first = evaluate(experiment(parrot), Executor(Store(tmp_path, pytest.fail)))
    assert column(first, "answer_failed") == ["", "", "", "timed out", ""]
    refusal = first.summaries.metrics["refusal"]
    scored = refusal.n_scored
    assert (refusal.n_failed, refusal.reasons["timed out"]) == (1, 1)
    assert refusal.coverage == pytest.approx(scored / (scored + 1))
    assert refusal.low_bound == pytest.approx(refusal.value * scored / (scored + 1))
    assert refusal.high_bound == pytest.approx((refusal.value * scored + 1) / (scored + 1))
    assert first.run.state == "PARTIAL"
    assert first.summaries.metrics["context_recall"].coverage == 1.0
    parrot.down.clear()
    second = evaluate(experiment(parrot), Executor(Store(tmp_path, pytest.fail)))
    assert [request.question for request in parrot.asked].count("xylophone") == 2
    assert len(parrot.asked) == 6
    assert second.run.state == "COMPLETE"
    assert untimed(second) == untimed(evaluate(experiment(Parrot())))


def test_seconds_of_answers_are_those_of_the_probed_questions() -> None:
    result = evaluate(experiment(Parrot()))
    assert result.summaries.metrics["latency_generate_mean_ms"].value == 250.0
    assert math.isnan(column(result, "latency_generate_mean_ms")[4])
    assert result.summaries.latency["generate"]["n"] == 4


def test_answers_of_several_models_under_one_address_are_a_warning() -> None:
    class Changing(Parrot):
        def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
            for n in range(len(requests)):
                done(n, Answer("x", seconds=0.25, model=f"m{n % 2}"))

    (said,) = evaluate(experiment(Changing())).run.warnings
    assert "m0, m1" in said
    assert evaluate(experiment(Parrot())).run.warnings == ()


def test_answers_without_their_seconds_are_a_warning() -> None:
    class Hasty(Parrot):
        def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
            for n in range(len(requests)):
                done(n, Answer("x", seconds=math.nan if n else 0.25))

    result = evaluate(experiment(Hasty()))
    (said,) = result.run.warnings
    assert said.startswith("the latency of 4 of 5 answers is unknown, because seconds are missing")
    assert result.summaries.latency["generate"]["n"] == 1


# --- verdicts ----------------------------------------------------------------------------------------------------


def unscored(result: Result) -> list[str]:
    return [row.get("length", "") for row in result.questions.unscored]


def test_case_holds_what_the_metric_uses_and_nothing_else() -> None:
    judge = Length("question", "contexts")
    evaluate(experiment(Parrot(), judged=judge))
    assert judge.cases[0] == Case("cats in the yard", "", (corpus().texts[1], corpus().texts[0]), "")
    assert len(judge.cases) == 2  # the same words asked with and without history are one case of their context


def test_question_that_lacks_what_is_used_is_not_judged_and_says_why() -> None:
    by_reference, by_context = Length("answer", "reference"), Length("contexts")
    assert unscored(evaluate(experiment(Parrot(), judged=by_reference))) == [
        "", "", NO_REFERENCE, "abstained", CONVERSATIONAL,
    ]  # fmt: skip
    assert unscored(evaluate(experiment(judged=by_context))) == ["", "", "", NOTHING_RETRIEVED, CONVERSATIONAL]
    assert unscored(evaluate(experiment(judged=by_reference)))[0] == "no answers asked for"


def test_failed_answer_is_not_judged_and_a_failed_verdict_is_asked_again(tmp_path: Path) -> None:
    judge = Length("question", "answer", down="cats in the yard")
    first = evaluate(experiment(Parrot("source code"), judged=judge), Executor(Store(tmp_path, pytest.fail)))
    assert unscored(first) == ["timed out", "timed out", "timed out", "abstained", CONVERSATIONAL]
    assert [case.question for case in judge.cases] == ["cats in the yard"]
    judge.down = ""
    second = evaluate(experiment(Parrot(), judged=judge), Executor(Store(tmp_path, pytest.fail)))
    assert unscored(second)[:3] == ["", "", ""]
    third = evaluate(experiment(Parrot("source code"), judged=Length("question", "answer")),
                     Executor(Store(tmp_path, pytest.fail)))  # fmt: skip
    assert untimed(third) == untimed(second)


# --- the plan ----------------------------------------------------------------------------------------------------


def test_plan_counts_answers_and_verdicts_at_most_and_finds_them_stored(tmp_path: Path) -> None:
    asked = [experiment(Parrot(), judged=Length("answer"), top_k=top_k) for top_k in (1, 2)]
    cold = plan([one.wanted for one in asked], Executor(Store(tmp_path, pytest.fail)))
    assert (cold.stages["generate"].asked, cold.stages["generate"].distinct, cold.stages["generate"].rows) == (2, 1, 10)
    assert (cold.stages["answer"].distinct, cold.stages["judge"].rows, cold.stages["verdict"].rows) == (2, 10, 0)
    evaluate(asked[0], Executor(Store(tmp_path, pytest.fail)))
    half = plan([one.wanted for one in asked], Executor(Store(tmp_path, pytest.fail)))
    assert (half.stages["answer"].stored, half.stages["generate"].rows) == (1, 5)
    assert half.stages["retrieve"].stored == half.stages["retrieve"].distinct
    evaluate(asked[1], Executor(Store(tmp_path, pytest.fail)))
    warm = plan([one.wanted for one in asked], Executor(Store(tmp_path, pytest.fail)))
    assert warm.total.stored == warm.total.distinct


def test_each_answer_and_verdict_is_priced_once_and_its_price_is_added_up() -> None:
    priced: list[str] = []

    class Half(NoPrices):
        def money(self, model: str, usage: Usage, *others: str) -> float:
            priced.append(model)
            return 0.5 * usage.calls

    result = evaluate(replace(experiment(Parrot(), judged=Length("answer")), prices=Half()))
    assert len(priced) == 2 * len(QUESTIONS.questions)
    assert [one for one in result.questions.steps["generate"].money if one == one] == [0.5] * len(QUESTIONS.questions)
    assert result.summaries.usage["generate"]["money"] == 0.5 * result.summaries.usage["generate"]["calls"] > 0
