"""Measure the cost of a further config in a warm sweep: milliseconds to fuse, probe, evaluate and encode it.

    python benchmarks/evaluate.py [folder of a BEIR collection] [configs] > ...

Convex fusions of two BM25 legs (k1 .4 and 1.5) to depth 100, alpha x top_k 3, 5, 10, on the bundled golden set or the
collection given. Medians of processor time, which other processes disturb least. pytrec_eval, if installed, scores the
same rankings with its own five families of metrics at our cutoffs, without intervals, tables or records.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.trec_texts import grades
from ragsweep.records.record_format import encode
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running.session import Session

Spent = dict[str, list[float]]
MEASURES = {"ndcg_cut.3,5,10,100", "recall.1,3,5,10,20,100", "P.1,3,5,10", "success.1,3,5,10", "recip_rank", "map"}


def prepare(session: Session, folder: str | None, alpha: float, top_k: int) -> Experiment:
    given = [f"retriever.alpha={alpha}", f"top_k={top_k}", "retriever=hybrid_convex",
             "retriever@retriever.legs.vector=bm25", "retriever.legs.vector.k1=.4"]  # fmt: skip
    if folder:
        given += ["dataset=beir", f"dataset.path={folder}", "chunker=none"]
    command = read_command(given, multirun=False)
    return session.prepare(Job(compose_jobs(command)[0].config, command.names()[0], tuple(given)))


def timed(spent: Spent, what: str, work: Callable[[], Any]) -> Any:
    began = time.process_time()
    done = work()
    spent.setdefault(what, []).append((time.process_time() - began) * 1000)
    return done


def measure(session: Session, experiment: Experiment, spent: Spent, first: bool) -> None:
    """Compute the stages before the evaluation, to time each separately."""
    evaluator, graph = session.evaluator, experiment.graph
    questions = [question for question in experiment.dataset.golden.questions if question.needs_retrieval]
    probed = evaluator.evaluate(experiment) and list(evaluator.executor.work) if first else None
    if probed is not None:
        return
    texts = [question.text for question in questions]
    ranking = timed(spent, "fuse", lambda: evaluator.executor.get(graph.ranking, texts))
    result = timed(spent, "evaluate (with the probe of fuse)", lambda: evaluator.evaluate(experiment))
    timed(spent, "evaluate again", lambda: evaluator.evaluate(experiment))
    timed(spent, "encode", lambda: encode(result))
    try:
        import pytrec_eval
    except ImportError:
        return
    run = {
        question.id: {str(position): float(score) for position, score in zip(found, scores, strict=True)}
        for question, found, scores in zip(questions, ranking.positions.tolist(), ranking.scores.tolist(), strict=True)
    }
    judged = {name: {doc: int(grade) for doc, grade in row.items()} for name, row in grades(questions).items() if row}
    judge = pytrec_eval.RelevanceEvaluator(judged, MEASURES)
    timed(spent, "pytrec_eval", lambda: judge.evaluate(run))


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    configs = int(sys.argv[2]) if len(sys.argv) > 2 else 96
    session, spent = Session(), Spent()
    measure(session, prepare(session, folder, 0.999, 10), spent, first=True)
    for n in range(configs // 3):
        for top_k in (3, 5, 10):
            measure(
                session, prepare(session, folder, round((n + 1) / (configs // 3 + 1), 4), top_k), spent, first=False
            )
    print(f"{'milliseconds a config':<36}{'median':>8}{'mean':>8}{'least':>8}")
    for what, numbers in spent.items():
        print(f"{what:<36}{statistics.median(numbers):>8.2f}{statistics.fmean(numbers):>8.2f}{min(numbers):>8.2f}")
    if "pytrec_eval" in spent:
        ratio = statistics.median(spent["evaluate again"]) / statistics.median(spent["pytrec_eval"])
        print(f"evaluate again / pytrec_eval: {ratio:.2f}")


if __name__ == "__main__":
    main()
