"""Which rows and columns of the results are shown in docs/measurements.md."""

from collections.abc import Mapping
from typing import NamedTuple


class Shown(NamedTuple):
    """A table of a file of results: its rows that match, and its columns; all columns where none is named."""

    result: str
    table: int = 0
    rows: str = ""
    columns: tuple[str, ...] = ()


GUARANTEED = ("", "betting", "empirical Bernstein", "seven looks", "Wilcoxon", "median", "WilcoxonPruner")
PLANTED = ("", "single-arm z", "paired t", "Wilcoxon, Holm", "ours: range")
EQUAL = r"^(10 equal, (n=100|ties|60 sources|rare large losses, n=200)|50 equal, n=100|scifact, 16)"
CHOICE = ("configs, questions: truth", "ours", "highest mean", "paired t, Holm", "best by Welch")
LAYOUTS = r"^12, (n=100: (equal|one \+.10|today's|random, sd .04|equal, 6 worse by 0.10)|40 documents of 5: equal) "
COSTS = ("variant", "one question, ms", "alone and in a batch, least", "nDCG@10", "of bm25 and late interaction")
RANKED = ("retriever", "reranker", "mix", "nDCG@10", "recall@10", "evidence up / down")

SHOWN: Mapping[str, Shown] = {
    "scifact": Shown("published"),
    "bm25": Shown("published", 1, columns=("collection", "nDCG@10 / recall@10 / recall@100", "questions", "p95 ms")),
    "surface": Shown("surface", columns=("sampler", "seeds", "first quarter", "half", "three quarters", "not in 200")),
    "racing-lost": Shown("racing", 0, r"^(4 equal|4, best by .05 |scifact as it is|python_faq as it is)", GUARANTEED),
    "planted-equal": Shown("planted", 0, EQUAL, PLANTED),
    "designs-effects": Shown(
        "designs-effects",
        0,
        r"^(2 x 2 x 2|7 of 3 x 3|one change at a time)( \||, two interact by .10 \|)",
        ("configs", "hold", "without a mark", "claimed: ours", "claimed: each alone"),
    ),
    "choice-false": Shown("choice", 0, LAYOUTS, CHOICE),
    "collections": Shown("collections"),
    "sweep": Shown("sweep"),
    "serve": Shown("serve"),
    "embed-quality": Shown("embed", 1, r"^(\w*float|int8)", COSTS),
    "multilingual": Shown("multilingual"),
    "rerank": Shown("rerank", 0, r"none|\| 50 \| 0.3 \|", RANKED),
    "variances": Shown("variances", columns=("metric", "median")),
    "answer-rules": Shown(
        "answer-rules",
        0,
        r"^(exact|token_f1|contains|token_recall|success_rate, threshold 0.5)",
        ("rule", "squad2_dev, one sentence (88, 32 right)", "squad2_dev, default (61, 16 right)"),
    ),
    "watch": Shown("watch", 0, r"\| all \||language"),
    "golden-rules": Shown("golden-rules"),
}
"""Marked place of the page -> its table."""
