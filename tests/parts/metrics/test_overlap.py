"""ROUGE-L and BLEU are ragas' own, of the whole answer, and the best over the right answers."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sacrebleu import sentence_bleu

from ragsweep.core.types import Answer, Answers, Question
from ragsweep.parts import metrics
from ragsweep.testing.answers import answered


def values(metric: metrics.RougeL | metrics.Bleu, said: str, *references: str) -> float:
    view = replace(
        answered([]),
        questions=(Question("", "", references=references),),
        answers=Answers([Answer(said)], [()], np.zeros(1, dtype=np.int64)),
    )
    return float(metric.score(view).values[0])


def test_rouge_is_the_f_measure_of_the_longest_common_subsequence() -> None:
    metric = metrics.RougeL()
    assert values(metric, "the cat", "the cat sat") == pytest.approx(2 * 2 / (2 + 3))
    assert values(metric, "sat cat", "the cat sat") == pytest.approx(2 * 1 / (2 + 3))  # one after the other only
    assert values(metric, "cats sitting", "cat sit") == 1  # stemmed
    assert values(metric, "the cat", "no", "the cat sat") == pytest.approx(0.8)  # the best right answer
    assert values(metric, "l'été à Orléans", "L'ÉTÉ À ORLÉANS") == 1
    assert values(metric, "té", "été") == 0  # accents are taken away, not letters


@pytest.mark.parametrize("said", ["one", "red mat", "The cat sat on the mat.", "A b c d e. F g h i j. K l."])
def test_bleu_is_that_of_the_whole_answer(said: str) -> None:
    right = "A b c d e. F x h i j. The cat lay on the red mat, one says."
    assert values(metrics.Bleu(), said, right) == pytest.approx(sentence_bleu(said, [right]).score / 100, abs=1e-9)
    assert values(metrics.Bleu(), right, right) == pytest.approx(1)


def test_second_sentence_counts() -> None:
    right = "A b c d e. F g h i j."
    assert values(metrics.Bleu(), "A b c d e. X y z v w.", right) < values(metrics.Bleu(), right, right)


def test_ragas_is_imported_when_an_answer_is_scored_and_not_before() -> None:
    code = (
        "import sys\nfrom dataclasses import replace\nfrom ragsweep.parts import metrics\n"
        "from ragsweep.testing.answers import answered\n"
        "metrics.RougeL().score(replace(answered(), answers=None)); metrics.Bleu().fingerprint()\n"
        "assert not {'ragas', 'rouge_score', 'sacrebleu', 'torch'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr
