"""Convert a golden set and its corpus to BEIR, TREC or SQuAD, or to triplets for training retrievers."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from ragsweep.core.types import Chunks, Corpus, GoldenSet, Question
from ragsweep.core.words import word_count
from ragsweep.evaluation.evidence import cover
from ragsweep.evaluation.trec_texts import encode_id, write_qrels
from ragsweep.parts.languages import usual_language
from ragsweep.parts.retrievers.bm25 import rank_texts
from ragsweep_golden.evidence.passages import locate_label
from ragsweep_golden.evidence.quotes import whole_words
from ragsweep_golden.exchange.exporting import Exported, count_lost, labels_as_texts, whole_grade
from ragsweep_golden.sets.entries import Entry, references, relevant_evidence, value
from ragsweep_golden.sets.files import json_lines

_RESERVED = ("unanswerable", "answer", "category", "weight")  # metadata keys of a query that have a fixed meaning


def export_beir(entries: Sequence[Entry], corpus: Corpus) -> Exported:
    """Return the files of a BEIR folder: corpus.jsonl, queries.jsonl and qrels/test.tsv, and the losses.

    Ids with leading or trailing white space are percent-encoded, because readers of qrels strip the fields.
    """
    notes = Counter[str]()
    queries, labels = [], ["query-id\tcorpus-id\tscore\n"]
    for entry in entries:
        metadata = {name: one for name, one in labels_as_texts(entry).items() if name not in _RESERVED}
        category = entry.get("category")
        if entry.get("answerable", True) is False:
            metadata["unanswerable"] = True
            is_other = category not in (None, "unanswerable")
            notes['categories of unanswerable questions became "unanswerable"'] += is_other
        elif not entry.get("evidence"):
            notes["questions without evidence are not part of BEIR's split"] += 1
        metadata |= {name: entry[name] for name in ("category", "weight") if entry.get(name)}
        queries.append({"_id": _stripped(entry["id"]), "text": entry["question"], "metadata": metadata})
        grades = _grades(entry, notes).items()
        labels += [f"{_stripped(entry['id'])}\t{_stripped(name)}\t{grade}\n" for name, grade in grades]
    names = [*corpus.ids, *(entry["id"] for entry in entries)]
    notes["ids with leading or trailing white space are percent-encoded"] += sum(
        _stripped(name) != name for name in names
    )
    files = {"corpus.jsonl": _documents(corpus, _stripped), "queries.jsonl": json_lines(queries)}
    shown = {name for entry in entries for name in labels_as_texts(entry) if name not in _RESERVED}
    kept = ("id", "question", "category", "answerable", "weight", "language", "content_type", "evidence.document",
            "evidence.grade", *(f"labels.{name}" for name in shown))  # fmt: skip
    return Exported(files | {"qrels/test.tsv": "".join(labels)}, count_lost(entries, kept), +notes)


def _stripped(name: str) -> str:
    return name if name == name.strip() else encode_id(name)


def export_trec(entries: Sequence[Entry], corpus: Corpus) -> Exported:
    """Return the files corpus.jsonl, topics.tsv (id, tab, text) and qrels.txt, and the losses.

    White space in ids is percent-encoded.
    """
    notes = Counter[str]()
    topics = []
    for entry in entries:
        text = " ".join(entry["question"].split())
        notes["line breaks and repeated spaces of questions became one space"] += text != entry["question"]
        notes["questions without evidence are not part of TREC's qrels"] += not entry.get("evidence")
        topics.append(f"{encode_id(entry['id'])}\t{text}\n")
    names = [*corpus.ids, *(entry["id"] for entry in entries)]
    notes["ids with white space are percent-encoded"] += sum(encode_id(name) != name for name in names)
    qrels = write_qrels({entry["id"]: _grades(entry, notes) for entry in entries})
    files = {"corpus.jsonl": _documents(corpus, encode_id), "topics.tsv": "".join(topics), "qrels.txt": qrels}
    return Exported(files, count_lost(entries, ("id", "question", "evidence.document", "evidence.grade")), +notes)


def export_squad(entries: Sequence[Entry], corpus: Corpus) -> Exported:
    """Return a file in the format of SQuAD 2.0, and the losses; each document is a paragraph with its questions.

    A question is assigned to the document of its first relevant label, else to the document of its provenance, else
    to the first document of the corpus that is not blank. Questions about a blank or missing document are omitted.
    """
    notes = Counter[str]()
    questions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    filled = [name for name, text in zip(corpus.ids, corpus.texts, strict=True) if text.strip()]
    for entry in entries:
        labels = relevant_evidence(entry)
        document = labels[0]["document"] if labels else value(entry, "provenance", "document") or "".join(filled[:1])
        here = [label for label in labels if label["document"] == document]
        notes["pieces of evidence in a second document are omitted"] += len(labels) - len(here)
        notes["labels with a grade of 0 or below are omitted"] += len(entry.get("evidence") or ()) - len(labels)
        answers = _answers(entry, here, corpus, notes)
        row = {"id": entry["id"], "question": entry["question"], "answers": answers}
        row |= {"is_impossible": entry.get("answerable", True) is False}
        questions[document].append(row | ({"weight": entry["weight"]} if entry.get("weight") else {}))
    left = sum(len(questions[name]) for name in questions.keys() - filled)
    notes["questions about a blank or missing document are omitted"] += left
    articles = list(_articles(corpus, questions, notes))
    text = json.dumps({"version": "v2.0", "data": articles}, ensure_ascii=False)
    kept = ("id", "question", "answerable", "weight", "reference", "references", "evidence.document",
            "evidence.anchor", "evidence.start")  # fmt: skip
    return Exported({"": f"{text}\n"}, count_lost(entries, kept), +notes)


def _articles(
    corpus: Corpus, questions: Mapping[str, list[dict[str, Any]]], notes: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yield one article per document that is not blank.

    The SQuAD reader names the paragraphs of an article TITLE/1, TITLE/2 and so on, without counting a paragraph that
    repeats an earlier text. Documents that already have these names, in this order, get the title TITLE and so keep
    their names. The title of any other document is its whole name, to which the reader adds a number.
    """
    numbers, seen = Counter[str](), set[str]()
    for name, text in zip(corpus.ids, corpus.texts, strict=True):
        if not text.strip():
            continue
        title, _, number = name.rpartition("/")
        if not title or number != str(numbers[title] + 1):
            title = name
        if text in seen:
            notes["documents with the text of an earlier document get its name"] += 1
        else:
            notes["document ids get a number: guide.md/1"] += title == name
            numbers[title] += 1
            seen.add(text)
        yield {"title": title, "paragraphs": [{"context": text, "qas": questions.get(name, [])}]}


SURE_WORDS = 5  # minimum number of words of an answer that may be located outside the quote


def _answers(
    entry: Entry, labels: Iterable[Mapping[str, Any]], corpus: Corpus, notes: Counter[str]
) -> list[dict[str, Any]]:
    """Return the right answers that the evidence contains, with their starts in the document.

    An answer of at least SURE_WORDS words that occurs exactly once in the document is returned even if it is outside
    the evidence. A quote that contains no right answer is returned as an answer.
    """
    spans = {found[1:]: label for label in labels if (found := locate_label(label, corpus))}
    answers: dict[tuple[str, int], None] = {}
    quoted, cut = set(spans), set[tuple[int, int]]()
    for reference in references(entry):
        used = False
        for (start, end), label in spans.items():
            text = corpus.texts[corpus.position[label["document"]]]
            is_sure = word_count(reference) >= SURE_WORDS and text.count(reference.strip()) == 1
            whole = whole_words(text, reference.strip())
            if places := [span for span in whole if is_sure or (start <= span[0] and span[1] <= end)]:
                at = places[0][0]
                answers[reference.strip(), at] = None
                if label.get("anchor") is not None and (at, at + len(reference.strip())) != (start, end):
                    cut.add((start, end))
                quoted.discard((start, end))
                used = True
        notes["right answers that the evidence does not contain are omitted"] += not used
    notes["quotes are cut to the answer in them"] += len(cut)
    for start, end in sorted(quoted):
        label = spans[start, end]
        if label.get("anchor") is None:
            notes["whole documents without an answer are omitted as evidence"] += 1
        else:
            answers[corpus.texts[corpus.position[label["document"]]][start:end], start] = None
            notes["quotes became answers"] += 1
    return [{"text": text, "answer_start": start} for text, start in answers]


def _grades(entry: Entry, notes: Counter[str]) -> dict[str, int]:
    """Return a mapping of each document in an entry's evidence to the document's highest grade, an integer."""
    grades: dict[str, int] = {}
    for label in entry.get("evidence") or ():
        grade = whole_grade(label, notes)
        grades[label["document"]] = max(grade, grades.get(label["document"], grade))
    return grades


def _documents(corpus: Corpus, name: Callable[[str], str]) -> str:
    rows = zip(corpus.ids, corpus.titles, corpus.texts, strict=True)
    return json_lines({"_id": name(one), "title": title, "text": text} for one, title, text in rows)


_DEPTH = 50  # number of chunks, the best by BM25, that are candidates for the negative


def export_triplets(entries: Sequence[Entry], questions: Sequence[Question], chunks: Chunks) -> Exported:
    """Return a file with a line for each triplet: a question, a chunk with its evidence (positive), and a negative.

    A negative is a chunk that contains no part of the question's evidence and, ignoring case, no right answer. The
    negative is the best such chunk by BM25: from the question's distractors or, if they have none, from the _DEPTH best
    chunks of the corpus. Questions without evidence or without a negative are omitted.
    """
    coverage = cover(chunks, GoldenSet(tuple(questions)))
    positives, overlapping = defaultdict[int, list[int]](list), defaultdict[int, set[int]](set)
    for evidence, chunk in zip(coverage.evidence, coverage.chunk, strict=True):
        positives[int(coverage.question[evidence])].append(int(chunk))
    for n, chunk in zip(coverage.marked.question.tolist(), coverage.marked.chunk.tolist(), strict=True):
        overlapping[n].add(chunk)
    asked = list(positives)
    texts = list(chunks)
    code = usual_language(questions[n].text for n in asked)
    ranked = dict(zip(asked, rank_texts([questions[n].text for n in asked], texts, code, _DEPTH), strict=True))
    rows, notes = [], Counter[str]()
    for n, found in positives.items():
        negative = _negative(questions[n], overlapping[n], ranked[n], chunks, texts)
        if negative is None:
            notes["questions without a similar chunk are omitted"] += 1
            continue
        for chunk in dict.fromkeys(found):
            rows.append({"question": questions[n].text, "positive": texts[chunk], "negative": texts[negative]})
    notes["questions without evidence are omitted"] += len(questions) - len(asked)
    lost = count_lost(entries, ("question", "evidence.", "distractors"))
    return Exported({"": json_lines(rows)}, lost, +notes)


def _negative(
    question: Question, overlapping: Set[int], ranked: Sequence[int], chunks: Chunks, texts: Sequence[str]
) -> int | None:
    """Return the index of the first chunk with neither evidence nor a right answer; None if there is no such chunk.

    The chunks of the distractors are tried first, those in ``ranked`` before the others. If no chunk of a
    distractor qualifies, all chunks in ``ranked`` are tried.
    """
    known = {chunks.corpus.position.get(name, -1) for name in question.distractors}
    documents = chunks.spans.document
    of_distractors = [n for n in ranked if int(documents[n]) in known]
    of_distractors += [n for n in range(len(texts)) if int(documents[n]) in known] if known else []
    answers = [one.casefold() for one in question.references]
    for chunk in (*of_distractors, *ranked):
        if chunk not in overlapping and not any(answer in texts[chunk].casefold() for answer in answers):
            return chunk
    return None
