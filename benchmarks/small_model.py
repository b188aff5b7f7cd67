"""Fill the tables of docs/small_model.md from the two sweeps that it names.

    PYTHONPATH=src:benchmarks python benchmarks/small_model.py FOLDER FOLDER

The folders contain the results of the sweeps (``.ragsweep`` where they were run), in the order of the page.
"""

import sys
from collections.abc import Iterator, Sequence

from doc_pages import fill
from ragsweep.core.results import Result
from ragsweep.stats.context_effect import KINDS, compare
from ragsweep.sweep.concluding.recorded_runs import find_sweep

SWEEPS = {"prompts": "Python reference", "squad": "SQuAD 2.0"}
LONGEST = 64
"""Maximum number of tokens of an answer."""


def settings(result: Result) -> tuple[str, str]:
    """Return a config's retriever and prompt."""
    chosen = dict(one.split("=", 1) for one in result.run.overrides if "=" in one)
    return chosen.get("retriever", "bm25"), chosen.get("prompt", "default")


def write(head: Sequence[str], rows: Iterator[Sequence[object]]) -> list[str]:
    """Return the lines of a table."""
    return [f"| {' | '.join(map(str, row))} |" for row in [head, ["---"] * len(head), *rows]]


def quadrants(sweeps: dict[str, list[Result]]) -> Iterator[Sequence[object]]:
    """Yield the effect of context for each set and prompt."""
    for name, results in sweeps.items():
        by_settings = {settings(result): result for result in results}
        for (retriever, prompt), result in by_settings.items():
            if retriever != "none" and ("none", prompt) in by_settings:
                effect = compare(by_settings["none", prompt].questions, result.questions)
                counts = [effect.counts[kind] for kind in KINDS]
                yield SWEEPS[name], prompt, len(effect.kinds), *counts, f"{effect.p_value:.2g}"


def answers(sweeps: dict[str, list[Result]]) -> Iterator[Sequence[object]]:
    """Yield what each config answers, refuses and costs."""
    for name, results in sweeps.items():
        for result in results:
            table = result.questions
            rows = list(zip(table["answerable"], table["abstained"], table["success_rate"], strict=True))
            asked = [len([row for row in rows if row[0] == kind]) for kind in (True, False)]
            refused = [sum(bool(row[1]) for row in rows if row[0] == kind) for kind in (True, False)]
            right = sum(row[2] for row in rows if row[0])
            cut = sum(tokens >= LONGEST for tokens in table["answer_tokens_out"])
            read, written = (result.summaries.metrics[f"answer_tokens_{way}"].value for way in ("in", "out"))
            counts = f"{right:.0f} of {asked[0]}", f"{refused[0]} of {asked[0]}", f"{refused[1]} of {asked[1]}"
            yield SWEEPS[name], *settings(result), *counts, f"{cut} of {len(rows)}", f"{read:.0f}", f"{written:.0f}"


def main() -> None:
    """Write the tables."""
    sweeps = {name: find_sweep(folder, name) for name, folder in zip(SWEEPS, sys.argv[1:], strict=True)}
    head = ("set", "prompt", "questions", *KINDS, "p")
    fill("small_model.md", "quadrants", [*write(head, quadrants(sweeps)), ""])
    head = ("set", "retriever", "prompt", "right", "refuses answerable", "refuses unanswerable", "cut", "in", "out")
    fill("small_model.md", "answers", [*write(head, answers(sweeps)), ""])


if __name__ == "__main__":
    main()
