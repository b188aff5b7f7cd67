"""Measure the variances of differences between configs, from which a golden set is planned.

    RAGSWEEP_COLLECTIONS=... python benchmarks/variances.py [--store FOLDER] [--write]

Sweeps over each collection with run.py (four retrievers with three lengths of the context; RRF's k; the weight of a
convex combination) and reads, for each metric, the standard deviation of the paired differences per question, as the
median over pairs of configs that differ in a parameter, and over pairs that differ in the retriever. The intraclass
correlation of differences within source documents is that of all pairs, if enough questions share documents.
--write puts the table into docs/measurements.md; src/ragsweep/stats/inference/planning.py contains its last column.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger
from ragsweep.stats.inference.cluster_errors import intraclass_correlation
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.resampling import cluster_sums
from tables import keep_results

ROOT = Path(__file__).resolve().parent.parent
COLLECTIONS = ("python_faq_en", "python_faq_fr", "cranfield", "scifact", "squad2_dev")
METRICS = ("ndcg_at_10", "recall_at_10", "precision_at_5", "hit_rate_at_5", "mrr", "map", "context_recall",
           "context_ndcg")  # fmt: skip
SWEPT = (
    ("retriever=bm25,vector,hybrid_rrf,hybrid_convex", "top_k=3,5,10"),
    ("retriever=hybrid_rrf", "retriever.k=20,60"),
    ("retriever=hybrid_convex", "retriever.alpha=0.3,0.5,0.7"),
)
SHARED = 30
"""Minimum number of questions beyond the first of their source document for an estimate of the correlation."""


class Spreads(NamedTuple):
    """Variances of one metric in one collection; NaN if no configs differ, or too few questions share a source."""

    parameter: float
    method: float
    correlation: float


def sweep(collection: str, store: str, swept: Sequence[str]) -> list[Result]:
    folder = Path(os.environ["RAGSWEEP_COLLECTIONS"]) / collection
    given = ["dataset=beir", f"dataset.path={folder}", "dataset.split=test", "dataset.limit=600", "tracking=none"]
    command = [sys.executable, str(ROOT / "run.py"), "-m", *given, f"store.path={store}", *swept]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    ledger, words = Ledger(Path(store)), {given[1], *swept}
    found = next(sweep.id for sweep in reversed(ledger.sweeps()) if words <= set(sweep.name.split()))
    records = ledger.records(found)
    return [record.outcome for record in records if isinstance(record.outcome, Result)]


def spreads(sweeps: Sequence[Sequence[Result]], metric: str) -> Spreads:
    found: dict[str, list[float]] = {"parameter": [], "method": []}
    correlations = []
    for results in sweeps:
        matrix = score_matrix(results, metric)
        sizes = np.bincount(matrix.clusters).astype(float)
        for one, other in combinations(range(len(results)), 2):
            apart = matrix.values[one] - matrix.values[other]
            if not apart.any():
                continue
            same = results[one].run.parameters["retriever"] == results[other].run.parameters["retriever"]
            found["parameter" if same else "method"].append(float(apart.std(ddof=1)))
            if len(apart) - len(sizes) >= SHARED:
                rows = (apart - apart.mean())[None, :]
                correlations.append(intraclass_correlation(rows, cluster_sums(rows, matrix.clusters), sizes))
    return Spreads(*(float(np.median(one)) if one else math.nan for one in (*found.values(), correlations)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--store", default="", help="where the sweeps are kept; a temporary folder by default")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/ and docs/measurements.md")
    given = parser.parse_args()
    table: dict[str, list[Spreads]] = {metric: [] for metric in METRICS}
    with tempfile.TemporaryDirectory() as folder:
        for collection in COLLECTIONS:
            sweeps = [sweep(collection, given.store or folder, swept) for swept in SWEPT]
            for metric, cells in table.items():
                cells.append(spreads(sweeps, metric))
    head = ["metric", *COLLECTIONS, "median"]
    lines = ["parameter / retriever / correlation; - where it cannot be read.", ""]
    lines += [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
    for metric, cells in table.items():
        cells.append(Spreads(*np.nanmedian(np.array(cells), axis=0).tolist()))
        texts = [" / ".join("-" if math.isnan(one) else f"{one:.2f}" for one in cell) for cell in cells]
        lines.append(f"| {' | '.join([metric, *texts])} |")
    print("\n".join(lines))
    if given.write:
        keep_results("variances", [*lines, ""])


if __name__ == "__main__":
    main()
