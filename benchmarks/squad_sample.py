"""Draw 300 questions of SQuAD 2.0's development set, over all of its paragraphs, as a file in SQuAD's format.

    RAGSWEEP_COLLECTIONS=... python benchmarks/squad_sample.py squad.json [--labelled]
    python run.py dataset=squad dataset.path=squad.json retriever=bm25 chunker=none top_k=1 llm=smollm2

200 are answerable and 100 are not. ``--labelled`` keeps 67 and 33 of them, whose answers a reader labelled. All
paragraphs have one title, which is part of their text.
"""

import json
import os
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

COUNTS, LABELLED = {True: 200, False: 100}, {True: 67, False: 33}
SEED, SEED_LABELLED = 39, 100


def read(path: Path) -> list[dict[str, Any]]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def to_squad(row: dict[str, Any]) -> dict[str, Any]:
    """Return a question in SQuAD's format."""
    answers = [{"text": span["text"], "answer_start": span["start"]} for span in row["answer_spans"]]
    return {"id": row["id"], "question": row["question"], "is_impossible": not row["answerable"], "answers": answers}


def main() -> None:
    """Write the sample."""
    folder, draw = Path(os.environ["RAGSWEEP_COLLECTIONS"]) / "squad2_dev", random.Random(SEED)
    golden, asked = read(folder / "golden.jsonl"), defaultdict(list)
    rows = [
        row
        for answerable, count in COUNTS.items()
        for row in draw.sample([one for one in golden if one["answerable"] == answerable], count)
    ]
    if "--labelled" in sys.argv:
        draw, by_id = random.Random(SEED_LABELLED), {row["id"]: row for row in rows}
        kept = [
            draw.sample(sorted(name for name, row in by_id.items() if row["answerable"] == answerable), count)
            for answerable, count in LABELLED.items()
        ]
        rows = [row for row in rows if row["id"] in {*kept[0], *kept[1]}]
    for row in rows:
        asked[row["context_id"]].append(to_squad(row))
    paragraphs = [{"context": one["text"], "qas": asked[one["_id"]]} for one in read(folder / "corpus.jsonl")]
    sample = {"version": "v2.0", "data": [{"title": "squad2_dev", "paragraphs": paragraphs}]}
    Path(sys.argv[1]).write_text(json.dumps(sample), "utf-8")


if __name__ == "__main__":
    main()
