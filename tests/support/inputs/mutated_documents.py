"""Mutate documents while tracking each old character, so that the true change of every label is known."""

import random
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from ragsweep.core.types import Corpus, Evidence
from ragsweep_golden.labels.changes import DELETED, EDITED, MOVED

KINDS = ("moved", "edited", "deleted", "renamed", "split", "re-encoded")
Piece = tuple[int, int] | str
"""A span of the old text, or new text."""


@dataclass
class Mutated:
    """The new corpus, and the kind of change and the new form of each label; labels that stay valid are omitted."""

    corpus: Corpus
    fates: dict[Evidence, tuple[str, Evidence | None]] = field(default_factory=dict)
    re_encoded: int = 0  # number of labels


def mutate(corpus: Corpus, labels: Sequence[tuple[Evidence, tuple[int, int]]], seed: int, share: float) -> Mutated:
    """Mutate a share of the documents, each in one way; labels are given with their spans."""
    draw, result = random.Random(seed), Mutated(Corpus([], [], []))
    inside: dict[str, list[tuple[Evidence, tuple[int, int]]]] = {name: [] for name in corpus.ids}
    for label, span in labels:
        inside[label.document].append((label, span))
    documents: list[tuple[str, str]] = []
    for name, text in zip(corpus.ids, corpus.texts, strict=True):
        mine = inside[name]
        kind = draw.choice(KINDS) if mine and draw.random() < share else ""
        sentences = _sentences(text, [span for _, span in mine])
        if kind == "re-encoded":
            documents.append((name, _re_encode(text, draw)))
            result.re_encoded += len(mine)
            continue
        pieces, lost, how = _pieces(kind, sentences, text, mine, draw)
        parts = [(f"{name}-{n}", part) for n, part in enumerate(pieces)] if kind in ("renamed", "split") else [
            (name, pieces[0])
        ]  # fmt: skip
        for new_name, part in parts:
            documents.append((new_name, "".join(one if isinstance(one, str) else text[slice(*one)] for one in part)))
        for label, span in mine:
            if _overlap(span, lost):
                result.fates[label] = (how, None)
                continue
            place = next((new, at) for new, part in parts if (at := _offset(part, span)) is not None)
            new = Evidence(place[0], label.anchor, place[1] if label.start is not None else None)
            if new != label:
                result.fates[label] = (MOVED, new)
    result.corpus = Corpus([name for name, _ in documents], [""] * len(documents), [text for _, text in documents])
    return result


def _pieces(
    kind: str, sentences: list[tuple[int, int]], text: str, mine: list[tuple[Evidence, tuple[int, int]]],
    draw: random.Random,
) -> tuple[list[list[Piece]], tuple[int, int], str]:  # fmt: skip
    """Return the pieces of each new document, the span of the old one that is lost, and the kind of loss."""
    whole: list[Piece] = list(sentences)
    _, span = draw.choice(mine) if mine else (None, (0, 0))
    number = next((n for n, sentence in enumerate(sentences) if _overlap(sentence, span)), 0)
    long_enough = len(text[slice(*sentences[number])].split()) >= 8
    if kind == "moved" and len(sentences) > 1:
        moved = whole.pop(number)
        whole.insert(draw.choice([n for n in range(len(sentences)) if n != number]), moved)
    elif kind == "deleted":
        return [whole[:number] + whole[number + 1 :]], sentences[number], DELETED
    elif kind == "edited" and long_enough:
        begin, end = sentences[number]
        at = (span[0] + span[1]) // 2
        if text[at - 1 : at + 1].isalnum() and span[0] < at:
            return [[*whole[:number], (begin, at), "xq", (at, end), *whole[number + 1 :]]], (at - 1, at + 1), EDITED
    elif kind == "split" and len(sentences) > 1:
        cut = draw.randrange(1, len(sentences))
        return [whole[:cut], whole[cut:]], (0, 0), ""
    return [whole], (0, 0), ""


def _sentences(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Split a text after sentences, but not inside a span."""
    cuts = [match.end() for match in re.finditer(r"(?<=[.!?])\s+", text)]
    cuts = [cut for cut in cuts if not any(begin < cut < end for begin, end in spans)]
    return list(zip([0, *cuts], [*cuts, len(text)], strict=True))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _offset(part: Sequence[Piece], span: tuple[int, int]) -> int | None:
    at = 0
    for piece in part:
        if isinstance(piece, str):
            at += len(piece)
            continue
        if piece[0] <= span[0] < piece[1]:
            return at + span[0] - piece[0]
        at += piece[1] - piece[0]
    return None


def _re_encode(text: str, draw: random.Random) -> str:
    form = draw.choice(["NFC", "NFD"])
    space = draw.choice(["\r\n", "  ", "\u00a0", " \t"])
    return unicodedata.normalize(form, "".join(space if c == " " and draw.random() < 0.2 else c for c in text)) + "\n"
