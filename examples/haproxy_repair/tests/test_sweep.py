"""The task in ragsweep: configs are found, the four kinds of answers evaluated, and targets and success stated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ragsweep.core.results import Result
from ragsweep.core.secrets import Secrets
from ragsweep.sweep.command import compose
from ragsweep.sweep.compose import Composer
from ragsweep.sweep.config_policy import ConfigPolicy
from ragsweep.sweep.session import Job, Session

import haproxy_repair
from haproxy_repair.cases import FILE

NAMES = ("detection", "compliance", "optimisation", "hallucination_rate", "global_score", "repair_success")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, manual: dict[str, str]) -> dict[str, Result]:
    """Evaluate a sample of eight cases by all four generators."""
    folder = tmp_path_factory.mktemp("sweep")
    corpus = folder / "manual.jsonl"
    corpus.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in manual.items()))
    schema = Path(haproxy_repair.__file__).with_name("schema.json")
    common = [
        "task=haproxy_repair", f"dataset.cases={FILE}", f"dataset.corpus={corpus}", f"output.schema={schema}",
        "dataset.limit=8", "store.stages=false", f"store.path={folder / 'store'}",
    ]  # fmt: skip
    configs = {
        "alone": ["llm=haproxy_repairer", "retriever=none", "targets=haproxy_alone"],
        "rag": ["llm=haproxy_repairer", "retriever=bm25", "targets=haproxy_rag"],
        "do_nothing": ["llm=haproxy_do_nothing", "retriever=none"],
        "expected": ["llm=haproxy_expected", "retriever=none"],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "haproxy_repair")
        session, composer = Session(), Composer(policy=ConfigPolicy(Secrets()))
        found = {}
        for name, own in configs.items():
            overrides = (*common, *own)
            job = Job(compose(composer, overrides), name, overrides)
            found[name] = session.evaluator.evaluate(session.prepare(job))
        return found


def mean(result: Result, metric: str) -> float:
    return result.summaries[metric].value


def test_expected_repairs_have_the_best_scores(results: dict[str, Result]) -> None:
    values = {name: mean(results["expected"], name) for name in NAMES}
    assert values == {"detection": 100, "compliance": 1, "optimisation": 100, "hallucination_rate": 0,
                      "global_score": 100, "repair_success": 1}  # fmt: skip


def test_doing_nothing_solves_no_case(results: dict[str, Result]) -> None:
    nothing = results["do_nothing"]
    assert [mean(nothing, name) for name in ("detection", "optimisation", "repair_success")] == [0, 0, 0]
    assert mean(nothing, "global_score") < 60


def test_passages_help(results: dict[str, Result]) -> None:
    for name in ("detection", "optimisation", "global_score"):
        assert mean(results["do_nothing"], name) <= mean(results["alone"], name) <= mean(results["rag"], name)
    assert mean(results["rag"], "global_score") > mean(results["alone"], "global_score")


def test_every_metric_of_the_task_is_measured_and_built_in_ones_are_off(results: dict[str, Result]) -> None:
    names = set(results["rag"].summaries)
    assert {
        *NAMES, "findings_precision", "findings_recall", "findings_f1", "error_count", "warning_count",
        "refused_config", "hallucinated_options", "hallucinated_directives", "hallucinated_parameters",
        "hallucinated_values", "changed_lines", "added_lines", "removed_lines", "unreadable_output",
        "latency_retrieval_mean_ms", "latency_generate_mean_ms", "answer_tokens_in", "answer_tokens_per_second",
    } <= names  # fmt: skip
    assert not {"token_f1", "exact_match", "success_rate"} & names
    assert results["rag"].config["success"]["metric"] == "repair_success"


def test_targets_are_evaluated(results: dict[str, Result]) -> None:
    verdicts = {target.metric: target for target in results["rag"].targets}
    assert set(verdicts) == {"detection", "compliance", "optimisation", "hallucination_rate", "global_score"}
    assert {target.ideal for target in verdicts.values()} == {95, 0.95, 90, 5}
