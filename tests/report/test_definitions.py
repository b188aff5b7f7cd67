"""A metric is defined by its class's first sentence, under the name that tables show."""

from pathlib import Path

import pytest
import yaml

from ragsweep.report.sweep_document import define
from support.results import scored

CONF = Path(__file__).parents[2] / "conf" / "metrics"
PARTS = "ragsweep.parts.metrics"


@pytest.mark.parametrize("file", [file.name for file in sorted(CONF.glob("*.yaml"))])
def test_every_metric_that_comes_along_has_a_sentence(file: str) -> None:
    given = yaml.safe_load((CONF / file).read_text())
    nodes = {key: node for key, node in given.get("metrics", given).items() if "_target_" in node}
    found = define([scored({"ndcg": [1.0]}, config={"metrics": nodes})], list(nodes))
    assert list(found) == list(nodes)
    assert all(text.endswith(".") and text[0].isalnum() and "`" not in text for text in found.values())


def test_a_class_of_one_name_defines_it_under_any_key_and_one_that_is_gone_defines_nothing() -> None:
    nodes = {
        "mine": {"_target_": f"{PARTS}.ContextRecall"},
        "correct_answer": {"_target_": f"{PARTS}.AnswerFate", "fate": "correct_answer"},
        "gone": {"_target_": "my_metrics.Gone"},
    }
    found = define([scored({"ndcg": [1.0]}, config={"metrics": nodes})], ["correct_answer", "context_recall", "gone"])
    assert list(found) == ["correct_answer", "context_recall"]
