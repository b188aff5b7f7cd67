"""``ragsweep judge noise``: the agreement of a judge with itself."""

import argparse
import math

from ragsweep.commands.labels import scores_by_question
from ragsweep.core.errors import InputError, nearest
from ragsweep.core.plurals import counted, percentage
from ragsweep.report.document import Document, Section, Statement, lines
from ragsweep.stats.calibration import Noise, noise
from ragsweep.stats.comparable import differing_parameters
from ragsweep.stats.inference.matrix import WEIGHT
from ragsweep.sweep.concluding.recorded_runs import find_run

_JUDGED = "ragas_"
_REPLICATE = "judge.replicate"


def noise_document(options: argparse.Namespace) -> Document:
    """Build the document of a judge's noise in the chosen metrics, else in all ``ragas_*`` metrics that both runs have.

    Raises InputError if a run lacks a chosen metric, or if none is chosen and the runs share no ``ragas_*`` metric.
    """
    first, second = (find_run(options.path, run).result for run in options.runs)
    scores, others = scores_by_question(first), scores_by_question(second)
    shared = [name for name in scores if name in others]
    for name in options.metric or ():
        if name not in shared:
            way = nearest(name, shared) or "; run both configs again with the same metrics"
            raise InputError(f'the runs do not both have the metric "{name}"{way}')
    metrics = options.metric or [name for name in shared if name.startswith(_JUDGED)]
    if not metrics:
        named = f"name others with --metric{nearest(_JUDGED, shared)}"
        way = named if shared else "run both configs again with the same metrics"
        raise InputError(f"the runs share no metric {_JUDGED}*; {way}")
    floors, weights = {}, dict(zip(first.questions["question_id"], first.questions.get(WEIGHT, ()), strict=False))
    for name in metrics:
        both = [question for question in scores[name] if question in others[name]]
        one, other = ([values[name][question] for question in both] for values in (scores, others))
        floors[name] = noise(one, other, [weights[question] for question in both] if weights else None)
    differing = [name for name in differing_parameters(first.run, second.run) if name != _REPLICATE]
    digests = [(result.run.dataset.golden_digest, result.run.dataset.corpus_digest) for result in (first, second)]
    if digests[0] != digests[1]:
        differing.append("dataset")
    statements = []
    if differing:
        text = f"the runs differ in more than chance: {', '.join(differing)}"
        statements.append(Statement("warning", text, {"differing": differing}))
    elif first.run.parameters.get(_REPLICATE) == second.run.parameters.get(_REPLICATE):
        same = "both have the same judge.replicate, so their stored verdicts are identical; change it in one run"
        statements.append(Statement("warning", same))
    statements += [Statement("noise", f"{name}: {_noise_text(one)}", one._asdict()) for name, one in floors.items()]
    facts = {"differing": differing, "metrics": {name: found._asdict() for name, found in floors.items()}}
    return Document("Noise of the judge", [Section([lines(statements)])], facts)


def _noise_text(found: Noise) -> str:
    if math.isnan(found.spread):
        return f"both runs judged {counted(found.n, 'question')}; two are needed"
    return (
        f"{found.spread:.3f} per question (standard deviation of the difference), {percentage(found.changed)} of"
        f" {found.n} questions changed; means that differ by less than {found.of_the_mean:.3f} are indistinguishable"
    )
