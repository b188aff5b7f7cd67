"""A setting of a config that means nothing is an error that names the key."""

import math
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.identity import BuiltPart
from ragsweep.core.types import Dataset
from ragsweep.parts.metrics import ContextRecall
from ragsweep.sweep.composing.compose import main_config
from ragsweep.sweep.composing.settings import (
    check_command,
    check_config,
    check_constraints,
    check_form,
    check_labels_measured,
    check_shown,
    checked_metrics,
    read_sweep_labels,
)
from ragsweep.sweep.running.session import Session
from support.commands import composed, prepare, write_dataset, write_option


def check(*overrides: str) -> None:
    values = composed(*overrides).values
    check_form(values, main_config())
    check_command(values)
    check_config(values)


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("top_k=0", "top_k: must be a whole number of at least 1, got 0"),
        ("depth=true", "depth: must be a whole number of at least 1, got True"),
        ("seed=-1", "seed: must be a whole number of at least 0, got -1"),
        ("top_k=5.0", "top_k: must be a whole number of at least 1, got 5.0; in a search write int(interval(...))"),
        (
            "top_k=[3,5]",
            "top_k: must be a whole number of at least 1, got [3, 5]; to sweep over several values",
        ),
        ("top_k=101", "top_k=101 exceeds depth=100; raise depth, or lower top_k"),
        ("evidence.threshold=0", "evidence.threshold: must be above 0 and at most 1, got 0"),
        ("evidence.threshold=nan", "evidence.threshold: must be above 0 and at most 1, got nan"),
        ("coverage=1.1", "coverage: must be a share from 0 to 1, got 1.1"),
        ("context_budget=1.5", "context_budget: must be a whole number of at least 1, or null, got 1.5"),
        *(
            (f"recommend.margin={margin}", "recommend.margin: must be a finite number of at least 0, or null, got")
            for margin in (-1, "much", True, math.inf)
        ),
        *(
            (f"finalists={wrong}", "finalists: must be a whole number")
            for wrong in ("-1", "1.5", "true", "all", "null")
        ),
        ("progress=bars", "progress: must be \"questions\" or null, got 'bars'"),
        ("plan=yes", "plan: must be true, false or json, got 'yes'"),
        ("rerun=1", "rerun: must be true or false, got 1"),
        ("store.path='~/results'", "store.path: ~ is not expanded, got '~/results'; write /"),
        ("timeout=0", "timeout: must be a number above 0, or null, got 0"),
        ("max_failures=many", "max_failures: must be a number above 0, or null, got 'many'"),
        ("questions.until=8", "questions.until: is set by a race, rung by rung"),
        ("~top_k", "top_k: requires a value; omit ~top_k"),
        ("~evidence.threshold", "evidence.threshold: requires a value; omit ~evidence.threshold"),
        ("metrics=[]", "metrics: requires a value; set metrics=..."),
        ("store=x", "store: must be a mapping (path, worker_path, stages, remote), got 'x'"),
        ("evidence=null", "evidence: must be a mapping (threshold), got None"),
        ("budget=3", "budget: must be a mapping (calls, tokens, money), got 3"),
        ("headline=null", "headline: must be a list of metrics, [NAME, ...], got None"),
        ("+topk=9", 'topk: no such key; did you mean "top_k"? If it is your own key, rename it'),
        ("+evidence.treshold=.9", 'evidence.treshold: no such key; did you mean "threshold"?'),
        ("+store.x=1", "store.x: no such key; known: path, remote, stages, worker_path"),
    ],
)
def test_a_setting_that_means_nothing_is_missing_or_has_another_form_is_an_error(override: str, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check(override)
    assert str(raised.value).startswith(fault)
    check("budget=null", "+team=search")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# @package _global_\nchunker.size: 300\n", "chunker.size: a key in a file must not contain dots; nest it"),
        ("chunker: {size: 300}\n", 'experiment: its keys have no effect; begin the file with the line "# @package _g'),
        ("# @package _global_\nretriever: bm25\n", '; write "override /retriever: bm25" in the defaults'),
    ],
)
def test_a_file_whose_keys_would_have_no_effect_is_refused(cwd: Path, text: str, fault: str) -> None:
    write_option(cwd / "conf", "experiment/mine", text)
    with pytest.raises(ConfigError, match=re.escape(fault)):  # noqa: PT012
        check("+experiment=mine")
        prepare(Session(), *write_dataset(cwd), "+experiment=mine")


@pytest.mark.parametrize("key", ["top_k", "depth", "retriever.k1", "dataset.limit"])
def test_number_that_is_text_is_an_error_whose_remedy_works(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "3")
    chosen = ["retriever=bm25", "top_k=1"]
    for text in ("'3'", "${oc.env:NAME}"):
        with pytest.raises(ConfigError, match=rf"^{key}: must be .*, got '3'; .* decode a variable, KEY=") as raised:
            prepare(Session(), *chosen, f"{key}={text}")
    (remedy,) = shlex.split(str(raised.value).rpartition(", ")[2])
    prepare(Session(), *chosen, remedy.replace("KEY", key))


@pytest.mark.parametrize("name", ["recall@5", "", "/recall", "a//b", "a b#1"])
def test_name_that_mlflow_rejects_is_an_error(name: str) -> None:
    metric = cast(BuiltPart, SimpleNamespace(value=SimpleNamespace(name=name)))
    with pytest.raises(ConfigError, match=f'^metrics: MLflow may reject "{re.escape(name)}" as the name of a metric'):
        checked_metrics([metric], {}, cast(Dataset, None))


@pytest.mark.parametrize("bounds", [(0.0, math.inf), (-math.inf, None), (math.nan, 1.0)])
def test_bound_of_a_metric_that_is_not_finite_is_an_error(bounds: tuple[float | None, float | None]) -> None:
    metric = cast(BuiltPart, SimpleNamespace(value=SimpleNamespace(name="words", bounds=bounds)))
    with pytest.raises(ConfigError, match=r'^metrics: the bounds of "words" must be finite or null \(None\), got .*$'):
        checked_metrics([metric], {}, cast(Dataset, None))


@pytest.mark.parametrize("names", [("k3y_of_a_user",), ("recall", "by_k3y_of_a_user", "ndcg")])
def test_secret_in_the_name_of_any_metric_is_an_error(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_API_KEY", "k3y_of_a_user")
    metrics = [cast(BuiltPart, SimpleNamespace(value=SimpleNamespace(name=name))) for name in names]
    with pytest.raises(ConfigError, match=r"^metrics: the name of a metric contains a secret"):
        checked_metrics(metrics, {}, cast(Dataset, None))


@pytest.mark.parametrize(
    ("name", "limit", "fault"),
    [
        ("latency_p95", 800, 'constraints.latency_p95: unknown cost; did you mean "latency_p95_ms"'),
        ("latency_p95_ms", "fast", "constraints.latency_p95_ms: must be a number above 0, or null"),
        ("latency_p95_ms", 0, "constraints.latency_p95_ms: must be a number above 0, or null"),
        ("cost_per_1000", 3, 'constraints.cost_per_1000: no metric "cost_per_1000" is measured'),
    ],
)
def test_constraint_that_could_never_be_kept_is_an_error(name: str, limit: object, fault: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_constraints({name: limit}, {})
    assert fault in str(raised.value)


@pytest.mark.parametrize(
    ("configs", "fault"),
    [
        ([{"name": None, "by": "colour"}], r'by: no label "colour" divides these questions; known: category, level'),
        ([{"name": None, "by": "level"}, {"name": None, "by": None}], "by: cannot differ within a sweep"),
        ([{"name": "a", "by": None}, {"name": "b", "by": None}], "name: cannot differ within a sweep"),
        ([{"name": 7, "by": None}], "name: 7 must begin with a letter"),
    ],
)
def test_name_and_label_of_a_sweep_are_checked(configs: list[dict[str, object]], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        check_shown(configs, ["category", "level"])


@pytest.mark.parametrize(
    ("values", "meaning"),
    [
        ((1, 3, 5), r"on a scale of 1 to 5, replace each label by \(label - 1\) / 4"),
        ((0.5, 85, 40), "divide percentages by 100"),
    ],
)
def test_labels_of_a_sweep_are_on_its_metrics_scale(tmp_path: Path, values: tuple[float, ...], meaning: str) -> None:
    path, metric = tmp_path / "labels.csv", ContextRecall()
    rows = "".join(f"q{n},{metric.name},{value}\n" for n, value in enumerate(values))
    path.write_text(f"question_id,metric,label\n{rows}")
    labels = read_sweep_labels([{"judge": {"labels": str(path)}}])
    with pytest.raises(InputError, match=rf"^{path}:3: the label .*{metric.name} is not between 0 and 1; {meaning}"):
        check_labels_measured(labels, {metric.name: metric})
