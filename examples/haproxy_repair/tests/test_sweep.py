"""The task in ragsweep: configs are found, the four kinds of answers evaluated, and targets and success stated."""

import json
from collections.abc import Mapping, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from ragsweep.core.results import Result
from ragsweep.core.secrets import Secrets
from ragsweep.sweep.composing.compose import Composer
from ragsweep.sweep.composing.composition_errors import compose
from ragsweep.sweep.composing.config_policy import ConfigPolicy
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running.session import Session

import haproxy_repair
from haproxy_repair.cases import FILE, read_cases
from scripted_model import ScriptedModel

NAMES = ("detection", "compliance", "optimisation", "hallucination_rate", "global_score", "repair_success")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, manual: dict[str, str]) -> dict[str, Result]:
    """Evaluate a sample of eight cases by all four generators."""
    configs = {
        "alone": ["llm=haproxy_repairer", "retriever=none", "targets=haproxy_alone"],
        "rag": ["llm=haproxy_repairer", "retriever=bm25", "targets=haproxy_rag"],
        "do_nothing": ["llm=haproxy_do_nothing", "retriever=none"],
        "expected": ["llm=haproxy_expected", "retriever=none"],
    }
    return evaluate_all(tmp_path_factory.mktemp("sweep"), manual, configs)


def evaluate_all(folder: Path, manual: dict[str, str], configs: dict[str, list[str]]) -> dict[str, Result]:
    """Evaluate configs on a sample of eight cases, in this process."""
    corpus = folder / "manual.jsonl"
    corpus.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in manual.items()))
    schema = Path(haproxy_repair.__file__).with_name("schema.json")
    common = [
        "task=haproxy_repair", f"dataset.cases={FILE}", f"dataset.corpus={corpus}", f"output.schema={schema}",
        "dataset.limit=8", "store.stages=false", f"store.path={folder / 'store'}",
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "haproxy_repair")
        session, composer = Session(folder=folder / "store"), Composer(policy=ConfigPolicy(Secrets()))
        found = {}
        for name, own in configs.items():
            overrides = (*common, *own)
            job = Job(compose(composer, overrides), name, overrides)
            found[name] = session.evaluator.evaluate(session.prepare(job))
        return found


def mean(result: Result, metric: str) -> float:
    return result.summaries.metrics[metric].value


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
    names = set(results["rag"].summaries.metrics)
    assert {
        *NAMES, "findings_precision", "findings_recall", "findings_f1", "error_count", "warning_count",
        "refused_config", "hallucinated_options", "hallucinated_directives", "hallucinated_parameters",
        "hallucinated_values", "optimisation_precision", "changed_lines", "added_lines", "removed_lines",
        "unreadable_output",
        "latency_retrieval_mean_ms", "latency_generate_mean_ms", "answer_tokens_in", "answer_tokens_per_second",
    } <= names  # fmt: skip
    assert not {"token_f1", "exact_match", "success_rate"} & names
    assert results["rag"].run.config["success"]["metric"] == "repair_success"


def test_targets_are_evaluated(results: dict[str, Result]) -> None:
    verdicts = {target.metric: target for target in results["rag"].summaries.targets}
    assert set(verdicts) == {"detection", "compliance", "optimisation", "hallucination_rate", "global_score"}
    assert {target.ideal for target in verdicts.values()} == {95, 0.95, 90, 5}


class Model(ScriptedModel):
    """A model that knows the expected repairs of some cases, and fails at the others."""

    prompts: ClassVar[list[str]] = []

    def reply(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the repair of the case whose configuration the prompt ends with, in a fenced block."""
        prompt = messages[-1]["content"]
        self.prompts.append(messages[0]["content"] + prompt)
        case = next(case for case in read_cases() if prompt.endswith(case["input"].strip()))
        answer = json.dumps({"findings": case["findings"], "config": case["expected"]})
        return f"Here it is:\n```json\n{answer}\n```" if case["difficulty"] == "easy" else "I would look at the log."


def test_a_model_gets_the_passages_and_its_answer_is_read(
    tmp_path: Path, manual: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    own = ["llm=openai", f"llm.base_url={url}", "llm.key_env=null", "llm.model=m", "retriever=bm25", "top_k=2"]
    result = evaluate_all(tmp_path, manual, {"model": [*own, "llm.replicates=2"]})["model"]
    server.shutdown()
    server.server_close()
    easy = [question for question in result.questions["output_fault"] if not question]
    solved = len(easy) / len(result.questions["output_fault"])
    assert 0 < solved < 1
    assert mean(result, "repair_success") == 1
    unread = result.summaries.metrics["repair_success"].reasons["unreadable output"]
    assert unread == len(result.questions["output_fault"]) - len(easy) > 0
    assert result.run.state == "COMPLETE"
    assert result.run.warnings[0].startswith(f"{2 * unread} of 16 replies could not be read")
    assert mean(result, "unreadable_output") == pytest.approx(1 - solved)
    assert mean(result, "answer_tokens_out") == 300
    assert len(Model.prompts) == 16  # eight cases, each twice
    assert all("<passage " in prompt and '"findings": [{"kind"' in prompt for prompt in Model.prompts)
