"""The naive job of benchmarks/sweep.py: a plain Hydra app that repeats everything but embedding in every job.

python benchmarks/sweep_naive.py FOLDER -m alpha=.1,.5 top_k=3     (called by sweep.py)
"""

import json
import sys
from pathlib import Path

import faiss
import hydra
import mlflow
import numpy as np
import pytrec_eval
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig
from rank_bm25 import BM25Okapi

from sweep_floor import DEPTH, read

FOLDER = Path(sys.argv.pop(1))
ConfigStore.instance().store("config", {"alpha": 0.5, "top_k": 5})


@hydra.main(config_path=None, config_name="config", version_base="1.3")
def main(config: DictConfig) -> None:
    facts = json.loads((FOLDER / "content.json").read_text())
    ids, texts, names, queries, labels = read(Path(facts["collection"]))
    vectors = np.load(FOLDER / "vectors.npz")
    words = BM25Okapi([text.lower().split() for text in texts])
    index = faiss.IndexFlatIP(vectors["documents"].shape[1])
    index.add(vectors["documents"])
    near, near_positions = index.search(vectors["queries"], DEPTH)
    run = {}
    for row, (name, query) in enumerate(zip(names, queries, strict=True)):
        scores = words.get_scores(query.lower().split())
        best = np.argsort(-scores)[:DEPTH]
        fused: dict[int, float] = {}
        for places, values, weight in (
            (best, scores[best], 1 - config.alpha),
            (near_positions[row], near[row], config.alpha),
        ):
            low, high = values.min(), values.max()
            for place, value in zip(places, values, strict=True):
                fused[int(place)] = fused.get(int(place), 0.0) + weight * float((value - low) / (high - low + 1e-12))
        ranked = sorted(fused.items(), key=lambda one: -one[1])[:DEPTH]
        run[name] = {ids[place]: value for place, value in ranked}
    measures = {"ndcg_cut.10", "recall.3,5,10,100", "P.3,5,10", "recip_rank", "map"}
    by_question = pytrec_eval.RelevanceEvaluator({name: labels[name] for name in names}, measures).evaluate(run)
    mlflow.set_tracking_uri(f"sqlite:///{FOLDER / 'naive.db'}")
    with mlflow.start_run():
        mlflow.log_params(dict(config))
        for measure in next(iter(by_question.values())):
            mlflow.log_metric(measure, float(np.mean([scores[measure] for scores in by_question.values()])))
        mlflow.log_dict(by_question, "questions.json")


if __name__ == "__main__":
    main()
