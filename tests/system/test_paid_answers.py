"""Configs that ask a service: what they cost, what a budget leaves of them, and that nothing is asked twice."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from llm_server import LlmServer, LoggedRequest
from llm_server.faults import Response
from llm_server.requests import default_answer
from ragsweep.core import missing
from ragsweep.core.errors import ConfigError, RagsweepError
from ragsweep.core.results import COMPLETE, PARTIAL, Result
from ragsweep.records.ledger import Ledger
from ragsweep.report.answers import answer_lines
from ragsweep.sweep import sweeping
from support import nightly
from support.commands import GOLDEN, evaluate, read, stored_session, write_dataset

pytestmark = pytest.mark.slow


@pytest.fixture
def server(cwd: Path) -> Iterator[LlmServer]:
    with LlmServer(lambda asked: default_answer(asked) if asked.schema else "It rests on the warm mat.") as made:
        yield made


def overrides(server: LlmServer, folder: Path, *more: str) -> list[str]:
    """Choose a small dataset and the service; of two metrics that load models there is no need."""
    llm = ["llm=openai", *server.overrides("llm", model="gpt-4o-mini")]
    return [*write_dataset(folder), *llm, "depth=4", "top_k=2", "~metrics.semantic_similarity", *more]


def judged(server: LlmServer, folder: Path, *more: str) -> list[str]:
    """Choose a judge at the same service, of another model, and two of its metrics."""
    unwanted = ("answer_correctness", "factual_correctness", "semantic_similarity", "noise_sensitivity",
                "answer_relevancy", "context_precision", "context_recall")  # fmt: skip
    judge = ["metrics=ragas", "judge=openai", *server.overrides("judge", model="gpt-4.1")]
    without = [f"~metrics.ragas_{name}" for name in unwanted]
    chosen = [line for line in overrides(server, folder) if not line.startswith("~metrics")]
    return [*chosen, *judge, *without, *more]


@pytest.mark.parametrize("part", ["llm", "judge"])
def test_calls_that_are_refused_again_do_not_fail_a_config_with_answers(
    server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The next run makes only the refused calls, so that no call of it is answered."""
    monkeypatch.setattr("ragsweep.services.limits.DOWN_AFTER", 1)
    answer, question = server.respond, GOLDEN[-1]["question"]

    def respond(logged: LoggedRequest) -> Response:
        is_asked = question in logged.request.prompt and (logged.request.schema is None) == (part == "llm")
        return Response(400, b"no") if is_asked else answer(logged)

    server.respond = respond
    for coverage, state in ((0.98, PARTIAL), (0.0, COMPLETE)):
        made = evaluate(stored_session(tmp_path), *judged(server, tmp_path, f"coverage={coverage}"))
        assert made.run.state == state


def test_experiment_and_a_thousand_questions_have_their_price(server: LlmServer, tmp_path: Path) -> None:
    own = stored_session(tmp_path)
    result = evaluate(own, *overrides(server, tmp_path))
    spent, asked = result.summaries.usage["generate"], len(server.log)
    assert (spent["calls"], asked, result.run.state) == (4, 4, COMPLETE)
    assert spent["money"] == pytest.approx((0.15 * spent["tokens_in"] + 0.6 * spent["tokens_out"]) / 1e6)
    assert result.summaries.metrics["cost_per_1000"].value == pytest.approx(1000 * spent["money"] / 4)
    assert result.summaries.metrics["cost_per_1000"].unit == "USD"
    assert own.services.meter.totals.money == pytest.approx(spent["money"])


def name_with_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make servers name their model as OpenAI does."""
    chat = LlmServer._chat
    dated = lambda self, asked: (said := chat(self, asked)) | {"model": f"{said['model']}-2024-07-18"}  # noqa: E731
    monkeypatch.setattr(LlmServer, "_chat", dated)


def test_model_that_the_service_names_with_a_date_has_the_price_of_the_configs_model(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name_with_a_date(monkeypatch)
    talks = [row | {"history": [{"role": "user", "text": "Hello."}]} for row in GOLDEN]
    typed = overrides(
        server, tmp_path, "llm.model=mine", "+prices.models.mine=[1,2]", "query=rewrite", "budget.money=1"
    )
    write_dataset(tmp_path, talks)
    own = stored_session(tmp_path)
    result = evaluate(own, *typed)
    usage = result.summaries.usage
    for spent in (usage["generate"], usage["query"]):
        assert spent["money"] == pytest.approx((spent["tokens_in"] + 2 * spent["tokens_out"]) / 1e6)
    total = usage["generate"]["money"] + usage["query"]["money"]
    assert own.services.meter.totals.money == pytest.approx(total)
    assert result.summaries.metrics["cost_per_1000"].value == pytest.approx(1000 * total / len(GOLDEN))
    exact = evaluate(stored_session(tmp_path), *typed, "+prices.models.mine-2024-07-18=[10,20]")
    assert exact.summaries.metrics["cost_per_1000"].value == pytest.approx(10_000 * total / len(GOLDEN))


def test_judges_have_their_price_by_the_judges_own_model(server: LlmServer, tmp_path: Path) -> None:
    own = stored_session(tmp_path)
    result = evaluate(own, *judged(server, tmp_path))
    spent, answers = result.summaries.usage["judge"], result.summaries.usage["generate"]
    assert spent["calls"] == len(server.log) - answers["calls"] > 0
    assert spent["money"] == pytest.approx((2 * spent["tokens_in"] + 8 * spent["tokens_out"]) / 1e6)
    assert own.services.meter.totals.money == pytest.approx(spent["money"] + answers["money"])
    unpriced = evaluate(stored_session(tmp_path), *judged(server, tmp_path, "judge.model=llama"))
    assert "money" not in unpriced.summaries.usage["judge"]
    assert unpriced.summaries.usage["generate"]["money"] == pytest.approx(answers["money"])


def test_an_answer_that_two_questions_share_is_counted_once(server: LlmServer, tmp_path: Path) -> None:
    typed = overrides(server, tmp_path)
    write_dataset(tmp_path, [*GOLDEN, GOLDEN[0] | {"id": "again", "references": ["on a mat"]}])
    result = evaluate(stored_session(tmp_path), *typed)
    assert result.summaries.usage["generate"]["calls"] == len(server.log) == len(GOLDEN)


def test_model_without_a_price_has_no_cost_and_is_complete_all_the_same(server: LlmServer, tmp_path: Path) -> None:
    result = evaluate(stored_session(tmp_path), *overrides(server, tmp_path, "llm.model=llama"))
    assert "money" not in result.summaries.usage["generate"]
    assert result.run.state == COMPLETE
    assert result.summaries.metrics["cost_per_1000"].n_skipped == 4


def test_budget_leaves_a_partial_result_that_the_next_run_completes(server: LlmServer, tmp_path: Path) -> None:
    few = evaluate(stored_session(tmp_path), *overrides(server, tmp_path, "budget.calls=2", "llm.concurrency=1"))
    assert len(server.log) == 2
    assert few.run.state == PARTIAL
    assert few.summaries.metrics["cost_per_1000"].reasons == {missing.BUDGET_SPENT: 2}
    whole = evaluate(stored_session(tmp_path), *overrides(server, tmp_path))
    assert len(server.log) == 4
    assert whole.run.state == COMPLETE


def test_sweep_over_budgets_runs_each_config_with_its_own(server: LlmServer, tmp_path: Path) -> None:
    typed = overrides(server, tmp_path, "tracking=none", "llm.concurrency=1", f"store.path={tmp_path}/s")
    assert sweeping.run(read([*typed, "llm.seed=1,2", "budget.calls=1,100"], multirun=True)).status == 1
    ledger = Ledger(tmp_path / "s")
    results = [record.outcome for record in ledger.records(ledger.sweeps()[-1].id)]
    calls = {
        one.name: (one.run.state, one.summaries.usage["generate"]["calls"])
        for one in results
        if isinstance(one, Result)
    }
    assert calls == {
        f"seed={seed} calls={limit}": (PARTIAL, 1) if limit == 1 else (COMPLETE, 4)
        for seed in (1, 2)
        for limit in (1, 100)
    }
    assert len(server.log) == 8  # the second config of each seed finds the first answer in the store


def test_failed_run_states_its_cost(server: LlmServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = server.respond
    server.respond = lambda logged: answer(logged) if len(server.log) < 3 else Response(401, b"no")
    typed = overrides(server, tmp_path, "tracking=none", "llm.concurrency=1", f"store.path={tmp_path}/s")
    with pytest.raises(RagsweepError, match="401"):
        sweeping.run(read(typed, multirun=False))
    assert "\nspent     3 calls · " in capsys.readouterr().out


def test_plan_of_a_resumed_sweep_leaves_out_the_calls_of_its_finished_configs(
    server: LlmServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such calls are those of failed repetitions, and of any answers that ``coverage`` does not require."""
    typed = overrides(server, tmp_path, "tracking=none", "llm.concurrency=1", f"store.path={tmp_path}/s")
    typed += ["llm.seed=1,2", "budget.calls=6", "llm.replicates=2", "llm.temperature=1"]
    swept = read(typed, multirun=True)
    assert sweeping.run(swept).status == 1  # the first config lacks two repetitions, the second every answer
    capsys.readouterr()
    sweeping.run(swept)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("plan "))
    assert line.startswith("plan      1 config · ")
    assert "expected 8 calls" in line
    sweeping.run(read([*typed, "plan=json"], multirun=True))
    assert json.loads(capsys.readouterr().out)["calls"] == 4  # two of each config, which rerun=true makes


def test_verdict_that_a_budget_interrupts_is_not_paid_for_twice(server: LlmServer, tmp_path: Path) -> None:
    fresh = evaluate(stored_session(tmp_path / "fresh"), *judged(server, tmp_path))
    needed = len(server.log)
    for limit in (needed - 3, needed - 2):  # in the middle of a verdict of two calls, or between two verdicts
        few = evaluate(stored_session(tmp_path / str(limit)), *judged(server, tmp_path, f"budget.calls={limit}"))
        assert any(summary.n_failed for summary in few.summaries.metrics.values())
        whole = evaluate(stored_session(tmp_path / str(limit)), *judged(server, tmp_path))
        assert whole.summaries.usage == fresh.summaries.usage
        assert len(server.log) == 2 * needed
        del server.log[needed:]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("+budget.cals=3", r'budget\.cals: unknown limit; did you mean "calls"'),
        ("budget.calls=many", r"budget\.calls: must be a number of at least 0, or null, got 'many'"),
        ("prices.date=soon", r'prices\.date must be a date such as "2025-08-15", got \'soon\''),
        ("+prices.models.mine=[1]", r"prices\.models\.mine: must be \[input price"),
    ],
)
def test_limit_or_price_that_is_none_is_refused(line: str, message: str, server: LlmServer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(stored_session(tmp_path), *overrides(server, tmp_path, line))


def test_prompts_of_about_the_same_size_are_not_taken_for_cut(server: LlmServer, tmp_path: Path) -> None:
    corpus = [{"id": str(n), "text": "tree " * 1100 + name} for n, name in enumerate(("oak", "maple", "chestnut"))]
    golden = [{"id": one["id"], "question": f"where is the {one['text'][5500:]}", "reference": "a"} for one in corpus]
    data = [*write_dataset(tmp_path, golden, corpus), "llm=openai", *server.overrides("llm"), "chunker=none", "top_k=1"]
    result = evaluate(stored_session(tmp_path), *data, "depth=3", "metrics=answers", "headline=[answer_tokens_in]")
    assert not [warning for warning in result.run.warnings if "the service read exactly" in warning]


def test_prompts_that_a_service_cuts_without_an_error_are_a_warning(server: LlmServer, tmp_path: Path) -> None:
    corpus = [{"id": str(n), "text": f"{name} " * (1100 + 10 * n)} for n, name in enumerate(("oak", "elm", "yew"))]
    golden = [{"id": one["id"], "question": f"where is the {one['text'][:3]}", "reference": "here"} for one in corpus]
    data = [*write_dataset(tmp_path, golden, corpus), "llm=openai", *server.overrides("llm"), "chunker=none", "top_k=1"]
    typed = [*data, "depth=3", "metrics=answers", "headline=[answer_tokens_in]"]
    whole = evaluate(stored_session(tmp_path / "whole"), *typed)
    server.window = 1024
    cut = evaluate(stored_session(tmp_path / "cut"), *typed)
    (warning,) = {*cut.run.warnings} - {*whole.run.warnings}
    assert "the service read exactly 1,024 tokens of each of the 3 longest prompts of the llm, so" in warning


def test_prompts_with_contexts_of_one_length_are_no_warning(server: LlmServer, tmp_path: Path) -> None:
    corpus = [{"id": str(n), "text": f"{name} " * 400} for n, name in enumerate(("oak", "elm", "yew"))]
    golden = [{"id": one["id"], "question": f"where is the {one['text'][:3]}", "reference": "here"} for one in corpus]
    data = [*write_dataset(tmp_path, golden, corpus), "llm=openai", *server.overrides("llm"), "chunker=none", "top_k=3"]
    typed = [*data, "depth=3", "metrics=answers", "headline=[answer_tokens_in]", "retriever=vector", "embedder=hashing"]
    found = evaluate(stored_session(tmp_path), *typed)
    assert len(set(found.questions["answer_tokens_in"])) == 1
    assert not any("longest prompts" in warning for warning in found.run.warnings)


def test_thoughts_before_an_answer_change_no_score_and_are_counted(server: LlmServer, tmp_path: Path) -> None:
    plain = evaluate(stored_session(tmp_path / "plain"), *overrides(server, tmp_path))
    server.answer = lambda asked: "<think>\nThe stars, or the ship?\n</think>\n\nIt rests on the warm mat."
    thinking = evaluate(stored_session(tmp_path / "thinking"), *overrides(server, tmp_path))
    for name in ("answer", "abstained", "success_rate", "token_f1", "refusal", "hallucinated_answer"):
        np.testing.assert_array_equal(thinking.questions[name], plain.questions[name], name)
    assert plain.questions["answer_thoughts"] == [""] * 4
    assert thinking.questions["answer_thoughts"] == ["The stars, or the ship?"] * 4
    assert thinking.summaries.usage["generate"]["tokens_out"] > plain.summaries.usage["generate"]["tokens_out"]
    said = [line.text for line in answer_lines([thinking])]
    assert "in 4 of 4 answers; thoughts are not scored" in said
    assert not any("thoughts" in line.text for line in answer_lines([plain]))
    again = evaluate(stored_session(tmp_path / "thinking"), *overrides(server, tmp_path))  # from the store
    assert again.questions["answer_thoughts"] == thinking.questions["answer_thoughts"]


# --- without a key --------------------------------------------------------------------------------------------


KEYS = ("OPENAI_API_KEY", "OTHER_KEY", "JUDGE_KEY")


def run(*typed: str) -> int:
    return sweeping.run(read(typed, multirun=False)).status


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["llm.key_env=OPENAI_API_KEY"], "llm: the environment variable OPENAI_API_KEY"),
        nightly(
            ["llm.key_env=null", "router=llm", "router.model=m", "router.key_env=OTHER_KEY"], "router: .* OTHER_KEY"
        ),
        nightly(["query=rewrite", "llm.key_env=OTHER_KEY"], "llm: the environment variable OTHER_KEY"),
        (["retriever=vector", "embedder=api", "embedder.base_url=http://127.0.0.1:9/v1", "embedder.model=m",
          "embedder.key_env=OTHER_KEY"], "embedder: .* OTHER_KEY"),
        (["router=similarity", "embedder=api", "embedder.base_url=http://127.0.0.1:9/v1", "embedder.model=m",
          "embedder.key_env=OTHER_KEY"], "embedder: .* OTHER_KEY"),
        nightly(["reranker=api", "reranker.base_url=http://127.0.0.1:9/v1", "reranker.model=m", "reranker.candidates=4",
          "reranker.key_env=OTHER_KEY"], "reranker: .* OTHER_KEY"),
    ],
)  # fmt: skip
def test_key_that_is_not_set_is_an_error_before_anything_is_computed(
    more: list[str], named: str, server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(
        ConfigError, match=f"{named}.* is not set or is empty; export the key, or set .* to another"
    ) as fault:
        run(*overrides(server, tmp_path, *more))
    assert fault.value.exit_status == 2
    assert not server.log
    assert not (tmp_path / ".ragsweep" / "ledger.db").exists()


def test_keys_of_all_parts_are_named_at_once(
    server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(ConfigError) as fault:
        run(*judged(server, tmp_path, "judge.key_env=JUDGE_KEY", "llm.key_env=OTHER_KEY"))
    assert [line.split(":")[0] for line in str(fault.value).splitlines()] == ["llm", "judge"]


def test_what_is_stored_needs_no_key_and_neither_does_a_plan(
    server: LlmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = overrides(server, tmp_path, "llm.key_env=OTHER_KEY", "tracking=none")
    monkeypatch.delenv("OTHER_KEY", raising=False)
    assert run(*typed, "plan=true") == 0
    monkeypatch.setenv("OTHER_KEY", "k-123456789")
    assert run(*typed) == 0
    monkeypatch.delenv("OTHER_KEY")
    assert run(*typed, "rerun=true") == 0
    assert len(server.log) == 4
