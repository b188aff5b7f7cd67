"""Which rows and columns of the results are shown in docs/measurements.md."""

from collections.abc import Mapping
from typing import NamedTuple


class Shown(NamedTuple):
    """A table in a file of results, with the rows that match and the named columns (if none is named, all)."""

    result: str
    table: int = 0
    rows: str = ""
    columns: tuple[str, ...] = ()


GUARANTEED = ("", "betting", "empirical Bernstein", "Wilcoxon")
PLANTED = ("", "paired t", "Wilcoxon, Holm", "model confidence set")
EQUAL = r"^(10 equal, (n=100|hits and misses|60 documents|rare large losses, n=200)|50 equal, n=100)"
CHOICE = ("configs, questions: true means", "ragsweep", "highest mean", "paired t, Holm")
LAYOUTS = r"^12, (n=100: (equal|baseline best,|equal, 6 worse by 0.10)|40 doc.* equal) "
COSTS = ("variant", "one question, ms", "lowest cosine between a text's vectors alone and in a batch", "nDCG@10")
SPEEDS = ("MiniLM, documents/s", "`use_multilingual`, documents/s")
BEST = ("questions", "n (clusters)", "RRF", "highest mean", "may be the best", "detectable difference", "optimism")
FOUND = ("sampler", "seeds", "a quarter after", "half after", "three quarters after", "none in 200 trials")
SERVED = ("config", "bare function", "served, 1 client", "served, 4 clients", "cold: bare", "cold: served")
WATCHED = (
    "planted drift",
    "detected within 200 requests",
    "median requests until detection",
    "most requests until detection",
)
RANKED = ("retriever", "reranker", "mix", "nDCG@10")

SHOWN: Mapping[str, Shown] = {
    "scifact": Shown("published"),
    "bm25": Shown("published", 1, columns=("collection", "nDCG@10 / recall@10 / recall@100", "questions")),
    "surface": Shown("surface", 0, r"^(?!random, former)", FOUND),
    "racing-lost": Shown("racing", 0, r"^(4 equal|4, best by .05 |scifact, real scores)", GUARANTEED),
    "planted-equal": Shown("planted", 0, EQUAL, PLANTED),
    "designs-effects": Shown(
        "designs-effects",
        0,
        r"^(2 x 2 x 2 \||(7 of 3 x 3|one change at a time)( \||, two interact by .10 \|))",
        ("configs", "all cover", "claimed: ragsweep", "claimed: separate 95 % intervals"),
    ),
    "choice-false": Shown("choice", 0, LAYOUTS, CHOICE),
    "collections": Shown("collections", columns=BEST),
    "sweep": Shown("sweep"),
    "serve": Shown("serve", 0, r"^(bm25|hybrid_rrf)", SERVED),
    "embed-quality": Shown("embed", 1, r"^(\w*float|int8 \|)", COSTS),
    "multilingual": Shown(
        "multilingual", columns=("collection", "questions", "BM25", "MiniLM", "`use_multilingual`", *SPEEDS)
    ),
    "rerank": Shown("rerank", 0, r"none|\| 50 \| 0.3 \|", RANKED),
    "variances": Shown("variances", 0, r"^(ndcg|recall|hit_rate|mrr|context)", ("metric", "median")),
    "answer-rules": Shown(
        "answer-rules",
        0,
        r"^(exact|token_f1|contains|token_recall|success_rate, threshold 0.5)",
        ("rule", "squad2_dev, one sentence (88, 32 right)"),
    ),
    "watch": Shown("watch", 0, r"^(?!.* three times).*\| all \|", WATCHED),
    "golden-rules": Shown("golden-rules", 0, r"^(?!libxslt)"),
}
"""Name of the markers in the page -> the table."""
