"""Match human labels with the answers that they describe, and correct means and differences with the labels.

A label describes one answer and counts only for configs that gave this answer. These are the config that ``run`` names,
configs with the text in ``answer`` as their answer, and configs with the same case (the input of the metric) as the
named run. A label without ``run`` and ``answer`` counts if only one config is corrected, or if all configs have the
same case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.errors import InputError
from ragsweep.core.plurals import counted
from ragsweep.core.question_results import Doubles, Flags, Numbers, QuestionResults
from ragsweep.core.results import HumanLabel, Result
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.prediction_powered import FEWEST_LABELS, Corrected, prediction_powered

_OF_ANSWERS = (
    "exact_match token_f1 token_recall contains_answer keyword_coverage semantic_similarity rouge_l bleu success_rate"
    " correct_answer wrong_answer false_refusal correct_refusal hallucinated_answer refusal ragas_answer_correctness"
    " ragas_answer_relevancy ragas_factual_correctness ragas_semantic_similarity"
)
_OF_CONTEXTS = "ragas_context_precision ragas_context_recall context_similarity"
READS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_OF_ANSWERS.split(), ("answer",)),
    **dict.fromkeys(_OF_CONTEXTS.split(), ("context",)),
}
"""Metric -> the question columns that it reads; any metric not listed reads the answer and the context."""

UNNAMED = "with neither run nor answer, although the configs answered differently or from different contexts"
NO_RUN = "whose run is neither the run id nor the name in tables of one of these configs"
OTHER_ANSWER = "whose answer was not given by the named run or, if none is named, by any of these configs"
TWO_CONTEXTS = "whose answer was given from different contexts, which the metric reads (name the run)"
NO_QUESTION = "for a question without a score in some config"
MARKS = "all labels are 0 or 1: they correct shares of passes; to correct means, label on the metric's scale"
_INCOMPLETE = (
    "labels of one config's answers count for another config only if they cover all answers of the other config to the"
    " labelled questions"
)
_NAMES = 'give the labels a column "run" (the run id, or the config\'s name) or "answer" (the text that was labelled)'
_RUNS = 'put the run id, or the config\'s name in tables, into the column "run"; a name given with name= does not count'
_MORE = "label more answers of every config, to questions with a score in every config"


@dataclass(frozen=True, eq=False)
class MatchedLabels:
    """The labels of one metric, by config and question of a matrix; NaN if missing.

    ``own`` has the labels that name the config's run. With a single config, it also has the labels that name neither a
    run nor an answer. ``shared`` maps each source (a run, or "-" if none is named) to its labels, for every config that
    gave the labelled answer; ``drawn`` flags the questions for which the source has a label. If two configs have equal
    ``cases`` on a question, the metric's input is the same for both.
    """

    own: Doubles  # (configs, questions)
    shared: Mapping[str, Doubles]
    drawn: Mapping[str, Flags]
    cases: Numbers  # (configs, questions)
    metric: str
    total: int
    unused: Mapping[str, int]  # reason -> number of labels
    marks: str  # ``MARKS`` if all labels, but not all scores, are 0 or 1, else ""

    def of(self, rows: Sequence[int], among: Flags) -> Doubles:
        """Return the labels of ``rows`` on the questions in ``among``, as (rows, questions); NaN elsewhere.

        Shared labels of a source count for a config only if, on the flagged questions, all of the config's answers to
        the source's questions are labelled. Otherwise only answers that equal a labelled answer would count, and these
        are not a random sample.
        """
        found = self.own[list(rows)].copy()
        for place, row in enumerate(rows):
            with_all = found[place].copy()
            sources = [(source, labels[row]) for source, labels in self.shared.items()]
            for _, labels in sources:
                with_all = np.where(np.isnan(with_all), labels, with_all)
            for source, labels in sources:
                if not np.isnan(with_all[self.drawn[source] & among]).any():
                    found[place] = np.where(np.isnan(found[place]), labels, found[place])
        return np.asarray(np.where(among, found, np.nan))

    def why_unused(self) -> str:
        """Describe the labels that count for no answer; "" if all count."""
        parts = [f"{count} {reason}" for reason, count in self.unused.items()]
        return f"of {counted(self.total, 'label')}, these are unused: {', '.join(parts)}" if parts else ""

    def way_out(self) -> str:
        """Describe why too few labels count, and how to make more labels count."""
        unused = self.why_unused()
        incomplete = "" if unused or not self.shared else _INCOMPLETE
        named = {*self.unused} <= {NO_QUESTION, OTHER_ANSWER}  # naming a run or an answer would not help
        way = _RUNS if NO_RUN in self.unused else _MORE if named else _NAMES
        return "; ".join(filter(None, [unused, incomplete, way]))


def match_labels(people: RunLabels, results: Sequence[Result], matrix: Matrix) -> MatchedLabels:
    """Match the labels of the metric of ``matrix`` with the answers of its configs; ``results`` are in matrix order.

    Raises:
        InputError: The run of a label matches more than one config.
    """
    position = {name: n for n, name in enumerate(matrix.questions)}
    reads = READS.get(matrix.metric, ("answer", "context"))
    shape = (len(results), len(position))
    own, shared, drawn = np.full(shape, np.nan), dict[str, Doubles](), dict[str, Flags]()
    unused = Counter[str]()
    for label in people.given:
        if (n := position.get(label.question)) is None:
            unused[NO_QUESTION] += 1
            continue
        places = [result.questions.row_of[label.question] for result in results]
        keys = [_case(result.questions, place, reads) for result, place in zip(results, places, strict=True)]
        answers = [_text(result.questions, place) for result, place in zip(results, places, strict=True)]
        owner = _owner(label.run, results, people.runs)
        rows, reason = _rows(label, owner, keys, answers)
        if reason:
            unused[reason] += 1
        elif owner is not None or (len(results) == 1 and not label.answer):
            own[owner or 0, n] = label.value
        if owner is None or not reason:
            source = label.run or "-"
            values = shared.setdefault(source, np.full(shape, np.nan))
            values[rows, n] = label.value
            drawn.setdefault(source, np.zeros(shape[1], dtype=bool))[n] = True
    cases = np.zeros(shape, dtype=np.int64)
    for n, name in enumerate(matrix.questions):
        first: dict[Hashable, int] = {}
        for config, questions in enumerate(result.questions for result in results):
            cases[config, n] = first.setdefault(_case(questions, questions.row_of[name], reads), len(first))
    marked = np.isin([label.value for label in people.given], (0, 1)).all() and not np.isin(matrix.scores, (0, 1)).all()
    marks = MARKS if people.given and marked else ""
    return MatchedLabels(own, shared, drawn, cases, matrix.metric, len(people.given), unused, marks)


def _rows(
    label: HumanLabel, owner: int | None, keys: Sequence[Hashable], answers: Sequence[str]
) -> tuple[list[int], str]:
    """Return the rows of the configs whose answer a label describes, and the reason if there are none (else "")."""
    text = _plain(label.answer)
    if owner is not None:
        if text and answers[owner] != text:
            return [], OTHER_ANSWER
        return [row for row, key in enumerate(keys) if key == keys[owner]], ""
    if text:
        rows = [row for row, answer in enumerate(answers) if answer == text]
        if not rows:
            return [], OTHER_ANSWER
        return (rows, "") if len({keys[row] for row in rows}) == 1 else ([], TWO_CONTEXTS)
    if label.run:
        return [], NO_RUN
    return (list(range(len(keys))), "") if len(set(keys)) == 1 else ([], UNNAMED)


def _owner(name: str, results: Sequence[Result], runs: Sequence[str]) -> int | None:
    """Return the row of the config whose name is ``name`` or whose run id begins with it; None if no config matches.

    Raises InputError if several configs match.
    """
    if not name:
        return None
    # Within a sweep, a config is named by number and label ("#3 top_k=10"); either suffices.
    names = [(result.name, *(result.name.split(" ", 1) if result.name[:1] == "#" else ())) for result in results]
    owners = [row for row, known in enumerate(names) if name in known]
    owners = owners or [row for row, run in enumerate(runs) if run.startswith(name)]
    if len(owners) > 1:
        raise InputError(f'labels: the run "{name}" matches {len(owners)} configs; give the full run id')
    return owners[0] if owners else None


def _case(questions: QuestionResults, place: int, reads: Sequence[str]) -> Hashable:
    parts = {"answer": _text(questions, place), "context": tuple(_cell(questions, "context", place) or ())}
    return tuple(parts[name] for name in reads)


def _text(questions: QuestionResults, place: int) -> str:
    return _plain(_cell(questions, "answer", place) or "")


def _cell(questions: QuestionResults, name: str, place: int) -> Any:
    column = questions.get(name)
    return column[place] if column else None


def _plain(text: str) -> str:
    """Return ``text`` with normalised whitespace, because spreadsheets change whitespace."""
    return " ".join(str(text).split())


# --- corrections ---------------------------------------------------------------------------------------------------


class RunLabels(NamedTuple):
    """Human labels, and the id of each config's MLflow run, in config order; a label may name one of these runs."""

    given: Sequence[HumanLabel]
    runs: Sequence[str]

    def of(self, metric: str) -> RunLabels | None:
        """Return the labels of one metric; None if there are none."""
        chosen = [label for label in self.given if label.metric == metric]
        return RunLabels(chosen, self.runs) if chosen else None


def correct_mean(matrix: Matrix, matched: MatchedLabels, row: int, level: float = 0.95) -> Corrected:
    """Return the corrected mean of one row (see ``prediction_powered``); questions without an answer need no label."""
    settled = np.where(_declined(matrix, (row,)), matrix.scores[[row]], np.nan)
    labels = matched.of((row,), np.isnan(settled[0]))
    return prediction_powered(matrix.select_configs((row,)), labels, (1.0,), level, settled)


def correct_difference(
    matrix: Matrix, matched: MatchedLabels, rows: tuple[int, int], level: float = 0.95, share: float = 1.0
) -> Corrected:
    """Return the corrected mean of the second row minus ``share`` times the first row's (see ``prediction_powered``).

    If ``share`` is 1, the difference is 0 on each question for which both rows have the same case, regardless of the
    judge's scores. Labels correct the differences on all other questions. Scores of declined answers need no labels.
    """
    declined = _declined(matrix, rows)
    alike = (matched.cases[rows[0]] == matched.cases[rows[1]]) & ~declined.any(axis=0) & (share == 1)
    settled = np.where(declined, matrix.scores[list(rows)], np.where(alike, 0.0, np.nan))
    labels = np.concatenate([matched.of((row,), np.isnan(own)) for row, own in zip(rows, settled, strict=True)])
    return prediction_powered(matrix.select_configs(rows), labels, (-share, 1.0), level, settled)


def _declined(matrix: Matrix, rows: Sequence[int]) -> Flags:
    if matrix.declined is None:
        return np.zeros((len(rows), len(matrix.questions)), dtype=bool)
    return matrix.declined[list(rows)]


def reason_uncorrected(matched: MatchedLabels, found: Corrected) -> str:
    """Return why the labels could not correct their metric; "" if ``found`` has a corrected value."""
    if found.value == found.value:
        return ""
    metric = matched.metric
    if found.labels >= FEWEST_LABELS:  # too few clusters, although there are enough labels
        return f"nearly all labelled questions of {metric} are on one source document; label questions on others"
    reason = f"the config with the fewest labels of {metric} has {found.labels} that count; {FEWEST_LABELS} are needed"
    return f"{reason}; {matched.way_out()}"


def check_corrected(matched: MatchedLabels, found: Corrected) -> None:
    """Raise InputError if nothing was corrected because a config has no usable label."""
    if not found.labels and found.value != found.value:
        raise InputError(f"--labels: {reason_uncorrected(matched, found)}")
