"""Faithfulness by a local model: a tiny one, made here, read by the real code."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import SKIPPED
from ragsweep.core.types import Case, Judgement
from ragsweep.parts.metrics import FaithfulnessNli
from ragsweep.testing.contract import collect
from ragsweep.testing.metrics import MetricContract, answered

PAIRS = [("the cat sat on the mat", "the cat sat."), ("stars and planets", "the cat sat."), ("many words", "who?")]


@pytest.fixture
def metric(tiny_entailment: Path) -> FaithfulnessNli:
    return FaithfulnessNli(str(tiny_entailment), dtype="float32", device="cpu")


def judged(metric: FaithfulnessNli, *cases: Case) -> list[Judgement]:
    return collect(metric.judge, cases)


def probabilities(folder: Path, pairs: list[tuple[str, str]]) -> list[float]:
    """Compute the probability of entailment with transformers alone."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model, words = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        logits = [model.eval()(**words(*pair, return_tensors="pt")).logits[0] for pair in pairs]
    return [float(torch.softmax(one, dim=0)[1]) for one in logits]


class TestContract(MetricContract):
    @pytest.fixture(autouse=True)
    def _metric(self, metric: FaithfulnessNli) -> None:
        self.metric: Any = metric


def test_sentence_counts_where_a_passage_entails_it(tiny_entailment: Path) -> None:
    known = dict(zip(PAIRS, probabilities(tiny_entailment, PAIRS), strict=True))
    assert len({round(chance, 3) for chance in known.values()}) == 3
    for (text, sentence), chance in known.items():
        for threshold, value in ((chance - 1e-3, 1.0), (chance + 1e-3, 0.0)):
            metric = FaithfulnessNli(str(tiny_entailment), threshold, dtype="float32", device="cpu")
            assert judged(metric, Case(answer=sentence, contexts=(text,)))[0].value == value


def test_best_passage_counts_and_sentences_are_averaged(tiny_entailment: Path) -> None:
    sentences, texts = ["the cat sat.", "stars and moons."], ["the mat", "many planets", "who and words"]
    pairs = [(text, sentence) for sentence in sentences for text in texts]
    chances = np.array(probabilities(tiny_entailment, pairs)).reshape(2, 3).max(axis=1)
    metric = FaithfulnessNli(str(tiny_entailment), float(chances.mean()), dtype="float32", device="cpu")
    assert judged(metric, Case(answer="The cat sat. [1] Stars and moons.", contexts=tuple(texts)))[0].value == 1 / 2


def test_case_is_judged_alike_whatever_is_beside_it(metric: FaithfulnessNli) -> None:
    cases = [Case(answer=f"the cat sat. {'many words. ' * (n % 3)}", contexts=("stars", "moons")) for n in range(20)]
    together = [judgement.value for judgement in judged(metric, *cases)]
    assert together[::6] == [judged(metric, case)[0].value for case in cases[::6]]


def test_without_model_nothing_is_judged_and_nothing_failed() -> None:
    metric = FaithfulnessNli()
    metric.check()
    assert set(metric.score(answered(metric=metric)).reasons) == {"not configured"}
    assert "not configured" in SKIPPED
    assert judged(metric, Case(answer="x", contexts=("y",)))[0].reason == "not configured"


@pytest.fixture
def relabelled(tiny_entailment: Path, tmp_path: Path) -> Callable[..., str]:
    """Copy the model with other names of its classes."""

    def copy(*labels: str) -> str:
        folder = tmp_path / "-".join(labels)
        shutil.copytree(tiny_entailment, folder)
        config = json.loads((folder / "config.json").read_text())
        config["id2label"] = {str(n): label for n, label in enumerate(labels)}
        (folder / "config.json").write_text(json.dumps(config))
        return str(folder)

    return copy


def test_model_without_entailment_is_refused(tiny_classifier: Path, relabelled: Callable[..., str]) -> None:
    with pytest.raises(ConfigError, match='whose classes are label_0; use a model with a class "entailment"'):
        FaithfulnessNli(str(tiny_classifier)).check()
    with pytest.raises(ConfigError, match="not_entailment, neutral"):
        FaithfulnessNli(relabelled("not_entailment", "neutral")).check()
    with pytest.raises(ConfigError, match=r"metrics\.faithfulness_nli\.model is 'nowhere/at_all'"):
        FaithfulnessNli("nowhere/at_all").check()


def test_another_model_is_another_judgement(tiny_entailment: Path, relabelled: Callable[..., str]) -> None:
    models = [None, str(tiny_entailment), relabelled("entailment", "no", "so")]
    prints = [str(FaithfulnessNli(model, dtype="float32").fingerprint()) for model in models]
    assert len(set(prints)) == 3
    assert str(FaithfulnessNli(models[1], batch_size=3, dtype="float32").fingerprint()) == prints[1]
