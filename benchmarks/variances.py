"""Measure how scores spread between configs, question by question: what a golden set is planned by.

    RAGSWEEP_COLLECTIONS=... python benchmarks/variances.py [--store FOLDER] [--write]

Sweeps twelve configs over each collection with run.py and reads, for each metric, the standard deviation of the paired
differences a question (median over pairs of configs) and their intraclass correlation within source documents: of
configs that differ in a parameter, and of such that differ in the retriever. --write puts the table into
docs/measurements.md between the markers; src/ragsweep/stats/inference/planning.py has its last row.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from doc_pages import fill
from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger
from ragsweep.stats.inference.cluster_errors import intraclass_correlation
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.resampling import cluster_sums

ROOT = Path(__file__).resolve().parent.parent
COLLECTIONS = ("python_faq_en", "python_faq_fr", "cranfield", "scifact", "squad2_dev")
METRICS = ("ndcg_at_10", "recall_at_10", "precision_at_5", "hit_rate_at_5", "mrr", "map", "context_recall",
           "context_ndcg")  # fmt: skip
SWEPT = ("retriever=bm25,vector,hybrid_rrf,hybrid_convex", "top_k=3,5,10", "tracking=none", "dataset.limit=600")


def sweep(collection: str, store: str) -> list[Result]:
    folder = Path(os.environ["RAGSWEEP_COLLECTIONS"]) / collection
    given = ["dataset=beir", f"dataset.path={folder}", "dataset.split=test", f"store.path={store}", *SWEPT]
    subprocess.run([sys.executable, str(ROOT / "run.py"), "-m", *given], check=True, stdout=subprocess.DEVNULL)
    ledger = Ledger(Path(store))
    records = ledger.records(ledger.sweeps()[-1].id)
    return [record.outcome for record in records if isinstance(record.outcome, Result)]


def spreads(results: Sequence[Result], metric: str) -> dict[str, tuple[float, float]]:
    """Return the median standard deviation of differences, and of their correlations, by what two configs differ in."""
    matrix = score_matrix(results, metric)
    sizes = np.bincount(matrix.clusters).astype(float)
    found: dict[str, list[tuple[float, float]]] = {"parameter": [], "method": []}
    for one, other in combinations(range(len(results)), 2):
        apart = matrix.values[one] - matrix.values[other]
        if not apart.any():
            continue
        deviations = (apart - apart.mean())[None, :]
        correlation = intraclass_correlation(deviations, cluster_sums(deviations, matrix.clusters), sizes)
        same = results[one].parameters["retriever"] == results[other].parameters["retriever"]
        found["parameter" if same else "method"].append((float(apart.std(ddof=1)), correlation))
    return {kind: tuple(np.median(np.array(rows), axis=0)) for kind, rows in found.items() if rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--store", default="", help="where the sweeps are kept; a temporary folder by default")
    parser.add_argument("--write", action="store_true", help="put the table into docs/measurements.md")
    given = parser.parse_args()
    kinds = [(metric, kind) for metric in METRICS for kind in ("parameter", "method")]
    table: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for collection in COLLECTIONS:
            results = sweep(collection, given.store or folder)
            cells = {(metric, kind): values for metric in METRICS for kind, values in spreads(results, metric).items()}
            table[collection] = cells
    lines = [f"| | {' | '.join(f'{metric}, {kind}' for metric, kind in kinds)} |", "| --- " * (len(kinds) + 1) + "|"]
    for collection, cells in table.items():
        row = [f"{cells[key][0]:.2f} / {cells[key][1]:.2f}" if key in cells else "-" for key in kinds]
        lines.append(f"| {collection} | {' | '.join(row)} |")
    typical = []
    for key in kinds:
        known = np.array([cells[key] for cells in table.values() if key in cells])
        typical.append(f"{np.median(known[:, 0]):.2f} / {np.median(known[:, 1]):.2f}" if len(known) else "-")
    lines.append(f"| median | {' | '.join(typical)} |")
    print("\n".join(lines))
    if given.write:
        fill("measurements.md", "variances", ["", *lines, ""])


if __name__ == "__main__":
    main()
