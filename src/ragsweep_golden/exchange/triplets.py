"""Make triplets for training retrievers: a question, a positive chunk, and a hard negative."""

from collections import Counter
from collections.abc import Sequence

from ragsweep.core.types import Chunks, GoldenSet, Question
from ragsweep.evaluation.evidence import cover
from ragsweep.parts.languages import detect_language
from ragsweep.parts.text_ranking import rank_texts
from ragsweep_golden.exchange.fields import Exported, count_lost
from ragsweep_golden.sets.entries import Entry
from ragsweep_golden.sets.files import json_lines

_DEPTH = 50  # chunks of BM25's ranking that are candidates for the negative


def export_triplets(entries: Sequence[Entry], questions: Sequence[Question], chunks: Chunks) -> Exported:
    """Return a file with one triplet per question and chunk that contains its evidence.

    The negative contains neither evidence nor, ignoring case, a right answer. It is the best such chunk by BM25,
    chosen among the chunks of the entry's distractors or, if there is none, among the _DEPTH best of all chunks.
    Questions without a negative are omitted.
    """
    coverage = cover(chunks, GoldenSet(tuple(questions)))
    positives: dict[int, list[int]] = {}
    for evidence, chunk in zip(coverage.evidence, coverage.chunk, strict=True):
        positives.setdefault(int(coverage.question[evidence]), []).append(int(chunk))
    asked = list(positives)
    texts = [chunks.text(n) for n in range(len(chunks))]
    code = detect_language(" ".join(questions[n].text for n in asked)[:10_000])
    ranked = dict(zip(asked, rank_texts([questions[n].text for n in asked], texts, code, _DEPTH), strict=True))
    rows, notes = [], Counter[str]()
    for n, found in positives.items():
        negative = _negative(questions[n], found, ranked[n], chunks, texts)
        if negative is None:
            notes["questions without a similar chunk are omitted"] += 1
            continue
        for chunk in dict.fromkeys(found):
            rows.append({"question": questions[n].text, "positive": texts[chunk], "negative": texts[negative]})
    notes["questions without evidence are omitted"] += len(questions) - len(asked)
    lost = count_lost(entries, ("question", "evidence.", "distractors"))
    return Exported({"": json_lines(rows)}, lost, +notes)


def _negative(
    question: Question, positives: Sequence[int], ranked: Sequence[int], chunks: Chunks, texts: Sequence[str]
) -> int | None:
    """Return the best chunk without evidence or a right answer, chunks of the distractors first; None without any."""
    known = {chunks.corpus.position.get(name, -1) for name in question.distractors}
    documents = chunks.spans.document
    of_distractors = [n for n in ranked if int(documents[n]) in known]
    of_distractors += [n for n in range(len(texts)) if int(documents[n]) in known] if known else []
    answers = [one.casefold() for one in question.references]
    for chunk in (*of_distractors, *ranked):
        if chunk not in positives and not any(answer in texts[chunk].casefold() for answer in answers):
            return chunk
    return None
