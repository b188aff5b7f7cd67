"""Measure the size of a large sweep's page, and the times to write it and to open it in a browser.

    PYTHONPATH=tests python benchmarks/report.py [--configs 1000] [--questions 300] [--repeats 5]

Synthetic results with, per question, ten context chunks of 900 characters, the path of a piece of evidence, and an
answer of 400 characters. Bars: 15 MB, and 3 s from the start of the navigation until the first chart is drawn, in
Debian's headless chromium.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ragsweep.core.question_texts import from_texts
from ragsweep.core.results import DatasetFacts, Result, Run, Summaries, Summary
from ragsweep.report.naming import number_configs
from ragsweep.report.page.data import page_document
from ragsweep.report.sweep_report import PageTexts, SweepReport
from ragsweep.report.writers.html import as_html
from ragsweep.stats.compare_configs import compare_configs
from ragsweep.stats.conclude import conclude
from support.servers.chromium import page as browser_page

SIZE_BAR, TIME_BAR = 15e6, 3.0
DEPTH = 10
LENGTH = 400
FACTS = DatasetFacts("made", "c" * 64, "d" * 64, 1000, 300, 300, 0)
DRAWN = "document.querySelector('.js-plotly-plot .main-svg')"
"""True once the first chart is drawn; the tables are laid out before it."""


def results(configs: int, questions: int) -> list[Result]:
    """Make a grid of k1 and top_k whose configs differ only a little."""
    generator = np.random.default_rng(0)
    hard = generator.beta(0.7, 1.1, questions)
    words = np.array(["".join(generator.choice(list("abcdefgh "), 40)) for _ in range(200)])
    ids = [f"q{n}" for n in range(questions)]
    shared = {
        "question_id": ids,
        "question": [" ".join(words[generator.integers(0, 200, 3)]) for _ in ids],
        "reference": [" ".join(words[generator.integers(0, 200, 5)]) for _ in ids],
        "category": [f"kind {n % 6}" for n in range(questions)],
        "evidence": [1] * questions,
        "unscored": ["{}"] * questions,
    }
    tens = max(configs // 10, 1)
    return [_config(n, f"k1={0.5 + n % tens * 0.01:.2f} top_k={1 + n // tens}", hard, words, shared, generator)
            for n in range(configs)]  # fmt: skip


def _config(
    n: int, name: str, hard: np.ndarray, words: np.ndarray, shared: dict, generator: np.random.Generator
) -> Result:
    questions = len(hard)
    scores = {
        "ndcg": np.clip(hard + generator.normal(0.0001 * n, 0.2, questions), 0, 1),
        "recall": np.clip(hard + generator.normal(0, 0.3, questions), 0, 1),
        "context_tokens": generator.normal(500 + n, 50, questions),
        "top_score": generator.normal(0.5, 0.1, questions),
    }
    outcomes = {
        **shared,
        "first_evidence_rank": generator.integers(0, 30, questions).tolist(),
        "context": [[f"document-{k}:{k * 7}-{k * 7 + 900}" for k in row]
                    for row in generator.integers(0, 20_000, (questions, DEPTH)).tolist()],
        "evidence_trace": [
            f'{{"held":[1],"legs":{{"a":[{rank}],"b":[{rank + 1}]}},"ranked":[{rank}]}}'
            for rank in generator.integers(0, 30, questions).tolist()
        ],
        "answer": [" ".join(words[generator.integers(0, 200, 10)])[:LENGTH] for _ in range(questions)],
        **{metric: column.tolist() for metric, column in scores.items()},
    }  # fmt: skip
    summaries = {metric: _summary(metric, column) for metric, column in scores.items()}
    kinds = np.array(shared["category"])
    groups = {kind: {"ndcg": _summary("ndcg", scores["ndcg"][kinds == kind])} for kind in sorted(set(kinds.tolist()))}
    overrides = tuple(name.split(" "))
    config = {"top_k": DEPTH, "objective": "ndcg", "headline": ["ndcg", "recall", "context_tokens"]}
    parameters = dict(word.split("=") for word in overrides)
    run = Run(f"{n:064d}", name, overrides, config, parameters, FACTS, stages={})
    return Result(run, from_texts(outcomes), Summaries(summaries, {"category": groups}))


def chunk_text(name: str) -> str:
    """Make a chunk of 900 characters with markup, which takes more space on the page."""
    return f"<p class='x'>{name}: {'a few words of text ' * 44}</p>"


def _summary(metric: str, column: np.ndarray) -> Summary:
    half = 1.96 * float(column.std()) / len(column) ** 0.5
    mean, tokens = float(column.mean()), metric == "context_tokens"
    return Summary(metric, mean, mean - half, mean + half, len(column), len(column), 0, 0, "tokens" if tokens else "",
                   not tokens)  # fmt: skip


def opened(page: Path, folder: Path) -> tuple[float, int]:
    """Open the page in a fresh browser; return the seconds until its first chart, and the number of charts then."""
    with browser_page(folder) as shown:
        began = time.perf_counter()
        shown.call("Page.navigate", url=f"file://{page}")
        shown.wait(DRAWN, 60)
        return time.perf_counter() - began, shown.value("document.querySelectorAll('.js-plotly-plot').length")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--configs", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    made = results(options.configs, options.questions)
    names = number_configs(dict(enumerate(one.name for one in made)))
    made = [one.renamed(names[n]) for n, one in enumerate(made)]
    verdict = compare_configs(made)
    began = time.perf_counter()
    texts = PageTexts(chunks={made[0].run.dataset.corpus_digest: chunk_text})
    report = SweepReport("k1 × top_k", made, conclusion=conclude(verdict, made), texts=texts)
    page = as_html(page_document(report), texts.secrets)
    print(f"written: {time.perf_counter() - began:.1f} s, {len(page) / 1e6:.1f} MB (bar {SIZE_BAR / 1e6:.0f} MB)")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "page.html"
        path.write_bytes(page)
        times, charts = zip(*(opened(path, Path(name) / f"profile{n}") for n in range(options.repeats)), strict=True)
    print(f"first chart: median {statistics.median(times):.1f} s, slowest {max(times):.1f} s (bar {TIME_BAR:.0f} s)")
    print(f"charts drawn by then: {charts[0]}")
    sys.exit(len(page) > SIZE_BAR or statistics.median(times) > TIME_BAR)


if __name__ == "__main__":
    main()
