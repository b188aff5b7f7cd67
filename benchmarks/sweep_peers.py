"""The sweep of benchmarks/sweep.py in other libraries, which only fuse and evaluate, and store nothing.

python benchmarks/sweep_peers.py FOLDER ranx|pyterrier     (called by sweep.py; prints seconds, setup left out)

Both lists of candidates are inputs, as for users of these libraries; what a library compiles or reads before the first
config counts as setup.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sweep_floor import DEPTH, read

CUTOFFS = (3, 5, 10)

Configs = list[tuple[float, int]]
Scores = dict[str, dict[str, float]]


def lists(work: Path) -> tuple[Scores, Scores, dict[str, dict[str, int]], dict[str, str]]:
    """Return the scores of a vector search and of BM25, the labels, and the questions."""
    import bm25s
    import faiss
    import Stemmer

    ids, texts, names, queries, labels = read(Path(os.environ["RAGSWEEP_COLLECTIONS"]) / "scifact")
    stem: dict[str, Any] = {"stopwords": "en", "stemmer": Stemmer.Stemmer("english"), "show_progress": False}
    model = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
    model.index(bm25s.tokenize(texts, **stem), show_progress=False)
    found, scores = model.retrieve(bm25s.tokenize(queries, **stem), k=DEPTH, show_progress=False)
    vectors = np.load(work / "vectors.npz")
    near, places = faiss.knn(vectors["queries"], vectors["documents"], DEPTH, metric=faiss.METRIC_INNER_PRODUCT)

    def named(positions: np.ndarray, values: np.ndarray) -> Scores:
        return {
            name: {ids[position]: float(value) for position, value in zip(row, at, strict=True)}
            for name, row, at in zip(names, positions.tolist(), values.tolist(), strict=True)
        }

    asked = dict(zip(names, queries, strict=True))
    return named(places, near), named(found, scores), {name: labels[name] for name in names}, asked


def by_ranx(work: Path) -> Callable[[Configs], None]:
    from ranx import Qrels, Run, evaluate, fuse

    near, found, labels, _ = lists(work)
    runs, qrels = [Run.from_dict(near), Run.from_dict(found)], Qrels.from_dict(labels)

    def sweep(configs: Configs) -> None:
        for alpha, top_k in configs:
            fused = fuse(runs, norm="min-max", method="wsum", params={"weights": (alpha, 1 - alpha)})
            evaluate(qrels, fused, [f"{name}@{cut}" for cut in (top_k, *CUTOFFS) for name in ("ndcg", "recall", "mrr")])

    return sweep


def by_pyterrier(work: Path) -> Callable[[Configs], None]:
    import pandas as pd
    import pyterrier as pt
    from ir_measures import RR, R, nDCG

    near, found, labels, asked = lists(work)

    def leg(scores: Scores) -> Any:
        rows = []
        for name, row in scores.items():
            low, high = min(row.values()), max(row.values())
            rows += [(name, asked[name], one, (score - low) / max(high - low, 1e-12)) for one, score in row.items()]
        return pt.Transformer.from_df(pd.DataFrame(rows, columns=["qid", "query", "docno", "score"]))

    legs = leg(near), leg(found)
    topics = pd.DataFrame(asked.items(), columns=["qid", "query"])
    qrels = pd.DataFrame(
        [(name, document, grade) for name, row in labels.items() for document, grade in row.items()],
        columns=["qid", "docno", "label"],
    )

    def sweep(configs: Configs) -> None:
        pipelines = [(alpha * legs[0] + (1 - alpha) * legs[1]) % top_k for alpha, top_k in configs]
        pt.Experiment(pipelines, topics, qrels, [measure @ cut for cut in CUTOFFS for measure in (nDCG, R, RR)])

    return sweep


def main() -> None:
    work, name = Path(sys.argv[1]), sys.argv[2]
    facts = json.loads((work / "content.json").read_text())
    sweep = {"ranx": by_ranx, "pyterrier": by_pyterrier}[name](work)
    configs = [(alpha, top_k) for alpha in facts["alphas"] for top_k in facts["top_ks"]]
    sweep(configs[:1])
    begun = time.perf_counter()
    sweep(configs)
    print(json.dumps({"seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main()
