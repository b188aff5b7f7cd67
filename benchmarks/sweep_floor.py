"""The floor of benchmarks/sweep.py: the same 96 configs by hand, sharing everything that can be shared.

python benchmarks/sweep_floor.py FOLDER     (called by sweep.py, which puts vectors.npz and content.json there)
"""

import json
import os
import sqlite3
import sys
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DEPTH = 100


class Lists(NamedTuple):
    """Both legs' candidates as dense rows: (questions, at most 200), padded with -1."""

    positions: np.ndarray
    vector: np.ndarray  # min-max normalised, 0 where the leg does not have the document
    bm25: np.ndarray
    relevant: np.ndarray
    total: np.ndarray  # relevant documents per question


def read(folder: Path) -> tuple[list[str], list[str], list[str], list[str], dict[str, dict[str, int]]]:
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").open()]
    queries = {row["_id"]: row["text"] for row in map(json.loads, (folder / "queries.jsonl").open())}
    labels: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        labels.setdefault(query, {})[document] = int(grade)
    names = [name for name in queries if name in labels]
    texts = [f"{row.get('title', '')} {row['text']}".strip() for row in documents]
    return [row["_id"] for row in documents], texts, names, [queries[name] for name in names], labels


def candidates(folder: Path, vectors: Any) -> tuple[Lists, list[str], np.ndarray]:
    import bm25s
    import faiss
    import Stemmer

    ids, texts, names, queries, labels = read(folder)
    stem = {"stopwords": "en", "stemmer": Stemmer.Stemmer("english"), "show_progress": False}
    model = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
    model.index(bm25s.tokenize(texts, **stem), show_progress=False)
    found, scores = model.retrieve(bm25s.tokenize(queries, **stem), k=DEPTH, show_progress=False)
    near, near_positions = faiss.knn(vectors["queries"], vectors["documents"], DEPTH, metric=faiss.METRIC_INNER_PRODUCT)
    position = {name: n for n, name in enumerate(ids)}
    shape = (len(names), 2 * DEPTH)
    lists = Lists(np.full(shape, -1), np.zeros(shape), np.zeros(shape), np.zeros(shape, bool), np.zeros(len(names)))
    for row, name in enumerate(names):
        union = np.unique(np.concatenate([found[row], near_positions[row]]))
        lists.positions[row, : len(union)] = union
        for target, places, values in (
            (lists.vector, near_positions[row], near[row]), (lists.bm25, found[row], scores[row])
        ):  # fmt: skip
            low, high = values.min(), values.max()
            target[row, np.searchsorted(union, places)] = (values - low) / max(high - low, 1e-12)
        wanted = [position[one] for one, grade in labels[name].items() if grade > 0]
        lists.relevant[row, : len(union)] = np.isin(union, wanted)
        lists.total[row] = len(wanted)
    return lists, names, np.array(ids)


def rank(lists: Lists, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of ``lists``, best first, and their fused scores: both (questions, DEPTH)."""
    fused = np.where(lists.positions >= 0, alpha * lists.vector + (1 - alpha) * lists.bm25, -1.0)
    order = np.argsort(-fused, axis=1, kind="stable")[:, :DEPTH]
    return order, np.take_along_axis(fused, order, axis=1)


def run_file(lists: Lists, names: list[str], ids: np.ndarray, order: np.ndarray, scores: np.ndarray) -> bytes:
    """Return a ranking as a compressed TREC run, which ragsweep writes once per distinct ranking, too."""
    documents = ids[np.take_along_axis(lists.positions, order, axis=1)].tolist()
    lines = [
        f"{name} Q0 {document} {place} {value:.6g} floor\n"
        for name, row, values in zip(names, documents, scores.tolist(), strict=True)
        for place, (document, value) in enumerate(zip(row, values, strict=True), start=1)
    ]
    packer = zlib.compressobj(4, wbits=16 + zlib.MAX_WBITS, strategy=zlib.Z_FILTERED)
    return packer.compress("".join(lines).encode()) + packer.flush()


def score(lists: Lists, order: np.ndarray) -> dict[str, np.ndarray]:
    hits = np.take_along_axis(lists.relevant, order, axis=1)
    discount = 1 / np.log2(np.arange(2, DEPTH + 2))
    ideal = np.cumsum(discount)[np.minimum(lists.total, 10).astype(int) - 1]
    ranks = np.arange(1, DEPTH + 1)
    found = np.cumsum(hits, axis=1)
    scores = {"ndcg_at_10": (hits[:, :10] * discount[:10]).sum(1) / ideal}
    scores |= {f"recall_at_{cutoff}": found[:, cutoff - 1] / lists.total for cutoff in (3, 5, 10, 100)}
    scores |= {f"precision_at_{cutoff}": found[:, cutoff - 1] / cutoff for cutoff in (3, 5, 10)}
    scores["mrr"] = np.where(hits.any(1), 1 / (hits.argmax(1) + 1), 0.0)
    scores["map"] = (hits * found / ranks).sum(1) / lists.total
    return scores


class Mlflow:
    """The cheapest calls that write one config: one run, one batch, one input, two files; and a file per ranking."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        from mlflow import MlflowClient

        self.client = MlflowClient(f"sqlite:///{folder / 'floor.db'}")
        self.root = folder / "floor-artifacts"
        self.experiment = self.client.create_experiment("floor", self.root.as_uri())
        self.parent = self.client.create_run(self.experiment, run_name="sweep").info.run_id
        self.content = content
        self.rankings = self.root / self.parent / "artifacts" / "rankings"
        self.rankings.mkdir(parents=True)

    def write(self, name: str, values: dict[str, str], scores: dict[str, np.ndarray]) -> None:
        import pyarrow
        from mlflow.entities import Dataset, DatasetInput, Metric, Param
        from pyarrow import parquet

        now = round(time.time() * 1000)
        tags = {"mlflow.parentRunId": self.parent, **self.content["tags"]}
        run = self.client.create_run(self.experiment, now, tags, name).info
        means = {metric: float(column.mean()) for metric, column in scores.items()}
        metrics = [Metric(key, value, now, 0) for key, value in {**self.content["metrics"], **means}.items()]
        params = [Param(key, value) for key, value in {**self.content["params"], **values}.items()]
        self.client.log_batch(run.run_id, metrics, params)
        dataset = Dataset("scifact", self.content["digest"], "floor", "{}", profile="{}")
        self.client.log_inputs(run.run_id, [DatasetInput(dataset, [])])
        artifacts = self.root / run.run_id / "artifacts"
        artifacts.mkdir(parents=True)
        (artifacts / "config.yaml").write_text(self.content["yaml"])
        table = {**self.content["outcomes"], **scores}
        parquet.write_table(pyarrow.table(table), artifacts / "outcomes.parquet")
        self.client.set_terminated(run.run_id, "FINISHED")


def main(folder: Path) -> None:
    facts = json.loads((folder / "content.json").read_text())
    lists, names, ids = candidates(Path(facts["collection"]), np.load(folder / "vectors.npz"))
    columns = {name: np.array(values, dtype=np.float64) for name, values in facts["numbers"].items()}
    tracked = Mlflow(folder, {**facts, "outcomes": {**facts["words"], **columns}}) if facts["tracked"] else None
    database = sqlite3.connect(folder / "own.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE records (name TEXT, params TEXT, metrics TEXT, scores BLOB)")
    best = 0.0
    for alpha in facts["alphas"]:
        order, fused = rank(lists, alpha)
        scores = score(lists, order)
        best = max(best, float(scores["ndcg_at_10"].mean()))
        if tracked:
            (tracked.rankings / f"{alpha}.trec.gz").write_bytes(run_file(lists, names, ids, order, fused))
        for top_k in facts["top_ks"]:
            values = {"retriever.alpha": str(alpha), "top_k": str(top_k)}
            means = {name: float(column.mean()) for name, column in scores.items()}
            name = f"retriever.alpha={alpha} top_k={top_k}"
            database.execute("BEGIN IMMEDIATE")
            row = (name, json.dumps({**facts["params"], **values}), json.dumps(means), np.stack([*scores.values()]))
            database.execute("INSERT INTO records VALUES (?, ?, ?, ?)", (*row[:3], row[3].tobytes()))
            database.execute("COMMIT")
            if tracked:
                tracked.write(name, values, scores)
    print(json.dumps({"best": best}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
