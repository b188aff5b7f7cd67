"""Sweeps for the report page: numbered configs with questions, contexts and answers, and their conclusions."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from ragsweep.core.results import Failure, Result
from ragsweep.report.document import Statement
from ragsweep.report.naming import number_configs
from ragsweep.report.page.data import page_document
from ragsweep.report.sweep_report import SweepReport
from ragsweep.report.writers.html import page_data
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.conclude import conclude
from support.results import changed, drawn, scored, summarised

COUNT = 40
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)> \u2028 $plotly &lt; 'q' \"d\""


def config(gain: float, tokens: float, **settings: str) -> Result:
    """Make the result of a config with these settings, a mean score of .5 + ``gain``, and ``tokens`` context tokens."""
    scores = {"ndcg": drawn(0.5 + gain), "context_tokens": drawn(tokens, seed=1)}
    labels = {"category": ["how", "why"] * (COUNT // 2)}
    found = scored(scores, labels, name=" ".join(f"{key}={value}" for key, value in settings.items()),
                   overrides=tuple(f"{key}={value}" for key, value in settings.items()), parameters=dict(settings),
                   config={"headline": ["ndcg", "context_tokens"]})  # fmt: skip
    groups = {
        "category": {
            value: {"ndcg": summarised("ndcg", scores["ndcg"][n::2])} for n, value in enumerate(("how", "why"))
        }
    }
    more: dict[str, Any] = {
        "context": [[f"a:{n}", f"b:{n}"] for n in range(COUNT)],
        "evidence": [1] * (COUNT - 4) + [0] * 4,
        "first_evidence_rank": [n % 3 for n in range(COUNT - 4)] + [0] * 4,
        "top_score": drawn(gain, seed=2),
        "answer": [HOSTILE if n == 1 else f"answer {n}" for n in range(COUNT)],
        "reference": [HOSTILE if n == 2 else f"reference {n}" for n in range(COUNT)],
        "question": [HOSTILE if n == 0 else f"question {n}" for n in range(COUNT)],
    }
    return changed(found, more, groups=groups, measured={"context_tokens": {"higher_is_better": False}})


def grid(gains: Mapping[str, float]) -> list[Result]:
    """Make a sweep of k, with these gains, crossed with a setting that does not affect quality."""
    return [
        config(gain, 500 + 100 * n + (b == "2"), k=k, b=b)
        for (n, (k, gain)), b in product(enumerate(gains.items()), "12")
    ]


def source(
    results: Sequence[Result], failures: Sequence[Failure] = (), baseline: int | None = None, **changes: Any
) -> SweepReport:
    """Number configs and compare them, as the end of a sweep does; ``baseline``: its number, counted from 1."""
    names = number_configs(dict(enumerate(one.name for one in results)))
    results = [changed(one, name=names[n]) for n, one in enumerate(results)]
    verdict = compare_configs(results, failures, baseline=None if baseline is None else names[baseline - 1])
    facts: dict[str, Any] = {"commands": [Statement("ragsweep list", "all")], **changes}
    return SweepReport("k × b", results, failures, **{"conclusion": conclude(verdict, results), **facts})


def page(report: SweepReport) -> dict[str, Any]:
    """Return the data of a sweep's page."""
    return page_data(page_document(report), report.texts.secrets)


def section(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    return next((one["items"] for one in document["sections"] if one["id"] == key), [])


def section_of(results: Sequence[Result], key: str, **options: Any) -> list[dict[str, Any]]:
    """Return the items of a section on the page of these configs; ``options`` are those of `source`."""
    return section(page(source(results, **options)), key)


def titled(items: Sequence[dict[str, Any]], title: str) -> dict[str, Any]:
    """Return the only item with this title."""
    (found,) = (one for one in items if one.get("title") == title)
    return found


def figures(node: Any) -> Iterator[dict[str, Any]]:
    """Find all figures of a document."""
    if isinstance(node, dict):
        if "figure" in node:
            yield node["figure"]
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from figures(one)


def painted(node: Any) -> Any:
    """Replace the placeholders of colours in a figure."""
    if isinstance(node, dict):
        return {key: painted(one) for key, one in node.items()}
    if isinstance(node, list | tuple):
        return [painted(one) for one in node]
    return "#123456" if isinstance(node, str) and node.startswith("$") else node
