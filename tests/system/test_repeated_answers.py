"""Repeated answers of a scripted service: what is asked, what is stored, and whose noise it is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from llm_server import LlmServer
from llm_server.requests import ModelRequest
from ragsweep.commands.compare import compare
from ragsweep.commands.gate import gate
from ragsweep.core.question_texts import to_texts
from ragsweep.core.results import COMPLETE, Result
from ragsweep.records.ledger import Ledger
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.resampling import bound, cluster_scores
from ragsweep.stats.repetition import variance_shares
from support.commands import CORPUS, GOLDEN, call, evaluate, stored_session, write_dataset, write_files
from support.results import record


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with LlmServer(lambda asked: f"It rests on mat {asked.body['seed'] // 100_000}.") as made:
        yield made


def overrides(server: LlmServer, folder: Path, *more: str) -> list[str]:
    data = write_files(folder, CORPUS, GOLDEN, f"{folder}/")
    llm = ["llm=openai", *server.overrides("llm", model="gpt-4o-mini")]
    return [*data, "retriever=bm25", *llm, "depth=4", "top_k=2", "~metrics.semantic_similarity", *more]


def test_every_repetition_is_asked_once_counted_and_never_again(server: LlmServer, tmp_path: Path) -> None:
    once = evaluate(stored_session(tmp_path), *overrides(server, tmp_path))
    assert len(server.log) == 4
    assert once.questions.repetitions is None
    thrice = evaluate(stored_session(tmp_path), *overrides(server, tmp_path, "llm.replicates=3"))
    assert len(server.log) == 12  # the first repetition is the answer that is there
    assert thrice.run.signature != once.run.signature
    assert (thrice.run.state, thrice.summaries.usage["generate"]["calls"]) == (COMPLETE, 12)
    assert thrice.summaries.usage["generate"]["money"] == pytest.approx(
        3 * once.summaries.usage["generate"]["money"], rel=0.1
    )
    assert sorted({one.request.body["seed"] for one in server.log}) == [0, 100_000, 200_000]
    assert thrice.questions["answer"] == once.questions["answer"]
    again = evaluate(stored_session(tmp_path), *overrides(server, tmp_path, "llm.replicates=3"))
    assert len(server.log) == 12
    assert again.summaries.usage == thrice.summaries.usage


def test_score_is_the_mean_of_the_repetitions_and_all_are_kept(server: LlmServer, tmp_path: Path) -> None:
    result = evaluate(stored_session(tmp_path), *overrides(server, tmp_path, "llm.replicates=3"))
    rows = [json.loads(text) for text in to_texts(result.questions)["answer_repetitions"]]
    assert all(row["answers"] == [0, 1, 2] for row in rows)
    for mean, row in zip(result.questions["token_f1"], rows, strict=True):
        scores = row["scores"]["token_f1"]
        assert len(scores) == 3
        known = [one for one in scores if one is not None]
        assert mean == pytest.approx(sum(known) / len(known)) if known else mean != mean


def test_failed_repetition_leaves_the_others_and_is_repeated_alone(server: LlmServer, tmp_path: Path) -> None:
    good = server.answer
    server.answer = lambda asked: "" if asked.body["seed"] == 100_000 else good(asked)
    typed = overrides(server, tmp_path, "llm.replicates=2", "llm.retries=0")
    few = evaluate(stored_session(tmp_path), *typed)
    assert any("some repetitions failed" in warning for warning in few.run.warnings)
    assert few.summaries.metrics["token_f1"].n_failed == 0
    server.answer, asked = good, len(server.log)
    whole = evaluate(stored_session(tmp_path), *typed)
    assert len(server.log) == asked + 4
    assert not any("repetitions" in warning for warning in whole.run.warnings)


def test_failed_repetition_does_not_make_an_unknown_price_a_failed_measurement(
    server: LlmServer, tmp_path: Path
) -> None:
    """The config was PARTIAL, and repeating the failed call could not complete it: its model has no price."""
    good = server.answer
    server.answer = lambda asked: "" if asked.body["seed"] == 100_000 else good(asked)
    typed = overrides(server, tmp_path, "llm.replicates=2", "llm.retries=0", "llm.model=unpriced")
    result = evaluate(stored_session(tmp_path), *typed)
    assert result.summaries.metrics["cost_per_1000"].n_scored == 0
    assert (result.summaries.metrics["cost_per_1000"].coverage, result.run.state) == (1.0, COMPLETE)


def test_budget_that_ends_in_a_later_repetition_leaves_a_count_of_the_missing_ones(
    server: LlmServer, tmp_path: Path
) -> None:
    typed = overrides(server, tmp_path, "llm.replicates=3", "llm.concurrency=1", "budget.calls=6")
    few = evaluate(stored_session(tmp_path), *typed)
    assert few.run.state == COMPLETE  # every question has a score
    (warning,) = [one for one in few.run.warnings if "some repetitions failed" in one]
    assert warning.startswith("some repetitions failed for 4 of 4 questions; ")
    assert dict(re.findall(r"(\w+) \((\d+)\)", warning))["refusal"] == "6"  # of 12 answers, 6 were given


def test_failed_repetition_of_a_question_without_a_route_is_not_counted(server: LlmServer, tmp_path: Path) -> None:
    good = server.answer

    def answer(asked: ModelRequest) -> str:
        if asked.schema is not None:
            return "maybe" if str(GOLDEN[0]["question"]) in asked.prompt else json.dumps({"search": True})
        return "" if asked.body["seed"] == 100_000 else good(asked)

    server.answer = answer
    router = ["router=llm", *server.overrides("router", model="r")]
    typed = overrides(server, tmp_path, "llm.replicates=2", "llm.retries=0", "coverage=0", *router)
    result = evaluate(stored_session(tmp_path), *typed)
    (warning,) = [one for one in result.run.warnings if "some repetitions failed" in one]
    counts = dict(re.findall(r"(\w+) \((\d+)\)", warning))
    assert int(counts["refusal"]) == 3  # of 4 questions
    for name, count in counts.items():  # the second answer of every question failed
        assert int(count) == result.summaries.metrics[name].n_scored, name


@pytest.mark.nightly
@pytest.mark.parametrize("by_seed", [True, False])
def test_noise_is_of_answers_where_only_they_vary_and_of_questions_where_only_they_do(
    server: LlmServer, tmp_path: Path, by_seed: bool
) -> None:
    def answer(asked: ModelRequest) -> str:
        drawn = Random(json.dumps([asked.body["messages"], asked.body["seed"] if by_seed else 0]))
        return " ".join(drawn.sample(["warm", "mat", "dog", "on", "the", "cat", "river", "sun"], 4))

    server.answer = answer
    own = stored_session(tmp_path)
    typed = overrides(server, tmp_path, "llm.replicates=8")
    pair = [evaluate(own, *typed), evaluate(own, *typed, "prompt=concise")]
    assert len(server.log) == 64
    shares = variance_shares(pair, score_matrix(pair, "grounding_lexical"))
    assert shares is not None
    assert shares.answers > 0.5 if by_seed else shares.answers == 0


@pytest.mark.nightly
def test_a_command_with_repetitions_and_samples_divides_the_variance_and_counts_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(asked: ModelRequest) -> str | dict[str, object]:
        drawn = Random(json.dumps([asked.prompt, asked.body["seed"]]))
        if asked.schema is None:
            place = Random(asked.prompt).randint(0, 999)  # by prompt: no two configs share an answer, as each counts it
            return f"{drawn.choice(['warm', 'mat', 'dog'])} {place}"  # few texts: some repetitions are alike
        return {"reason": "so it is", "verdict": drawn.randint(0, 1)}

    golden = [{**row, "id": f"{row['id']}{n}", "question": f"{row['question']} {n} {n * 7919}", "references": ["mat"]}
              for n in range(5) for row in GOLDEN[:3]]  # fmt: skip
    with LlmServer(answer) as server:
        service = server.overrides("llm", "judge", model="gpt-4o-mini")
        sweep = ["run", "-m", "prompt=default,concise", *write_dataset(tmp_path, golden), "llm=openai", "judge=openai",
                 "llm.replicates=3", "judge.samples=2", "metrics=[retrieval,swayed]", "~metrics.semantic_similarity",
                 "metrics.judge_swayed.share=1", "objective=judge_swayed", "targets=none", "depth=4", "top_k=2",
                 "tracking=none", *service]  # fmt: skip
        first = call(tmp_path, "-m", "ragsweep", *sweep).stdout
        asked = len(server.log)
        again = call(tmp_path, "-m", "ragsweep", *sweep, "rerun=true").stdout
        assert len(server.log) == asked
        judged = sum(one.request.schema is not None for one in server.log)
    shown = " ".join(first.split())
    sentence = shown[shown.index("of the variance of this difference") :].partition(". ")[0]
    assert sentence in " ".join(again.split())
    assert "from answers (3 repetitions), " in sentence
    assert "from the judge: twice the questions would narrow the interval to .71 of its width" in sentence
    ledger = Ledger(tmp_path / ".ragsweep")
    results = [one.outcome for one in ledger.records(ledger.sweeps()[0].id) if isinstance(one.outcome, Result)]
    assert sum(one.summaries.usage["generate"]["calls"] for one in results) == asked - judged == 2 * 3 * len(golden)
    assert sum(one.summaries.usage["judge"]["calls"] for one in results) == judged
    before, after = record(tmp_path / "compared", *results)
    path = ["--path", str(tmp_path / "compared")]
    compare([before, after, *path])
    assert sentence in " ".join(capsys.readouterr().out.split())
    gate(["--baseline", before, "--candidate", after, "--margin", "judge_swayed=.3", *path])
    assert sentence in " ".join(capsys.readouterr().out.split())


@pytest.mark.nightly
def test_intervals_hold_and_shares_are_those_of_the_service(server: LlmServer, tmp_path: Path) -> None:
    """Two configs whose probability of a right answer is drawn separately for each question, with equal means."""
    names = [Random(n).randbytes(6).hex() for n in range(24)]  # texts that are not alike

    def answer(asked: ModelRequest) -> str:
        name = next(name for name in names if f"where is {name}?" in asked.prompt)
        config = [asked.body["model"], asked.prompt.partition(name)[0], name]
        right = Random(json.dumps(config)).random()
        return "mat" if Random(json.dumps([*config, asked.body["seed"]])).random() < right else "dog"

    server.answer = answer
    corpus = [{"id": name, "text": f"{name} is on the mat"} for name in names]
    golden = [{"id": name, "question": f"where is {name}?", "references": ["mat"], "evidence": [{"document": name}]}
              for name in names]  # fmt: skip
    typed = [line for line in overrides(server, tmp_path, "llm.replicates=3") if "model" not in line]
    write_dataset(tmp_path, golden, corpus)
    held, shares, own = [], [], stored_session(tmp_path)
    for n in range(40):
        pair = [evaluate(own, *typed, f"llm.model=m{n}", *more) for more in ((), ("prompt=concise",))]
        matrix = score_matrix(pair, "exact_match")
        interval = bound(cluster_scores(matrix.values[1:] - matrix.values[:1], matrix.clusters), resamples=1999)
        held.append(interval.low[0] <= 0 <= interval.high[0])
        found = variance_shares(pair, matrix)
        assert found is not None
        shares.append(found.answers)
    assert sum(held) >= 34
    questions, answers = 2 / 12, 2 / 6 / 3  # 2 var(p), 2 E[p (1 - p)] / 3
    assert sum(shares) / len(shares) == pytest.approx(answers / (questions + answers), abs=0.06)
