"""Generate questions from chunks with a model, and reject unanswerable questions that a chunk may answer."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ragsweep.core.identity import BuiltPart, Rows, StageContext, key_check
from ragsweep.core.types import Answer, Passage, Request
from ragsweep.evaluation.answering import Packed, ask_all, packed_node, request_key, unpacked
from ragsweep.golden.anchors import resolve
from ragsweep.golden.golden_format import REJECTED
from ragsweep.golden.golden_set import chance
from ragsweep.parts.languages import detect_language
from ragsweep.stages.executor import Executor
from ragsweep_golden.building.drafts import Draft, Sources, Span
from ragsweep_golden.building.settings import BuildSettings
from ragsweep_golden.building.unanswerable import ANSWERING, Exhaustive
from ragsweep_golden.evidence.quotes import best_sentence
from ragsweep_golden.sets.entries import BLOOM, LANGUAGES, REASONING, SINGLE_FACT, UNANSWERABLE_TYPES, VALIDATED

LEAST = 200  # minimum number of characters of a chunk from which questions are generated
A_CHUNK = 3  # maximum number of questions per chunk
SPARE = 1.3  # number of questions requested per wanted question; above 1, because some are rejected
_MEANINGS = {
    "out_of_database": "asks for a thing of the topic that the documents do not contain",
    "false_presupposition": "takes something for granted that the passage contradicts",
    "underspecified": "does not say which of several things it means",
    "nonsensical": "combines notions of the topic in a way that makes no sense",
    "modality_limited": "asks for a picture, a sound, a video or a live value, which texts do not have",
    "safety_concerned": "asks for help with what the passage forbids or what does harm",
}


def generate_once(executor: Executor, stage: str, part: BuiltPart, requests: Sequence[Request]) -> list[Answer]:
    """Return a model's answers in the order of the requests; equal requests share one call.

    Each answer is cached under ``stage`` as soon as it arrives. If a call fails, its answer has ``failed`` set and is
    not cached. Raises ConfigError if a call needs an API key that is not set.
    """
    contents, check = {request_key(request): request for request in requests}, key_check(part.value)

    def compute(work: StageContext, rows: Rows) -> Packed:
        if check:
            check()
        return ask_all(work, rows, contents, part.value.generate)

    node = packed_node(stage, part.spec, (), compute, Answer)
    answers = unpacked(executor.get(node, list(contents)), Answer) if contents else []
    by_key = dict(zip(contents, answers, strict=True))
    return [by_key[request_key(request)] for request in requests]


@dataclass
class ModelAsker:
    """A generator of questions that calls a model; replies are cached, so that a rerun repeats only failed calls.

    ``failures`` is the number of failed calls. ``faults`` maps a reason to the number of failed calls, unreadable
    replies or incomplete questions with this reason. If the language of a document is not detected, the first of
    ``languages`` is assumed.
    """

    questions: BuiltPart
    unanswerable_questions: BuiltPart
    executor: Executor
    languages: Sequence[str]
    faults: Counter[str] = field(default_factory=Counter)
    failures: int = 0

    def answerable(self, sources: Sources, settings: BuildSettings) -> list[Draft]:
        """Return drafts of answerable questions about random chunks, drawn from each stratum according to its quota."""
        kinds = ", ".join(f"{name} {share:.0%}" for name, share in settings.mix.items())
        chunks = [chunk for one in sources.strata.values() for chunk in self._draw(sources, one.name, one.quota)]
        task = f"At most {A_CHUNK} questions. Types, with their shares: {kinds}."
        return [
            _draft(item, chunk, language, sources, settings.mix, self._name)
            for chunk, language, item in self._ask(
                "questions", self.questions, dict(chunks), task, sources, ("question", "answer")
            )
        ]

    def unanswerable(self, sources: Sources, settings: BuildSettings) -> list[Draft]:
        """Return drafts of the six unanswerable types; a draft is "rejected" if a chunk may answer the question."""
        each = math.ceil(SPARE * settings.questions * settings.unanswerable / len(UNANSWERABLE_TYPES))
        found = []
        for number, kind in enumerate(UNANSWERABLE_TYPES):
            every = len(sources.passages)
            drawn = [one for name in sources.strata for one in self._draw(sources, name, every, number)]
            chunks = dict(sorted(drawn, key=lambda one: chance(sources.seed, f"{number} {one[0]}"))[:each])
            task = f"One question of the type {kind}: it {_MEANINGS[kind]}."
            searches = {language: Exhaustive(sources.passages, language) for language in {*chunks.values()}}
            part, needed = self.unanswerable_questions, ("question", "missing")
            for chunk, language, item in self._ask(kind, part, chunks, task, sources, needed):
                found.append(self._checked(item, kind, chunk, language, sources, searches[language]))
        return found

    def _draw(self, sources: Sources, stratum: str, quota: int, turn: int = 0) -> list[tuple[int, str]]:
        """Draw enough random chunks of a stratum for ``quota`` questions; return (chunk index, language code) pairs.

        Only chunks of at least LEAST characters are drawn, so there may be too few pairs. The pairs are in corpus
        order. The language is that of the chunk's document. A different ``turn`` gives a different random order.
        """
        spans, corpus = sources.spans, sources.corpus
        usable = []
        for chunk in np.flatnonzero(spans.end - spans.start >= LEAST).tolist():
            document = sources.documents[chunk]
            if sources.stratum_of.get(corpus.ids[document]) == stratum:
                usable.append((chunk, detect_language(corpus.texts[document]) or self.languages[0]))
        order = sorted(usable, key=lambda one: chance(sources.seed, f"{turn} {sources.chunk_id(one[0])}"))
        return sorted(order[: math.ceil(SPARE * quota / 2)])  # a chunk yields about two usable questions

    def _checked(
        self, item: Mapping[str, Any], kind: str, chunk: int, language: str, sources: Sources, search: Exhaustive
    ) -> Draft:
        """Return the draft of a generated question, validated if no chunk answers the question, else rejected.

        ``item["missing"]`` is the phrase that, according to the model, no document contains. The draft is validated if
        this phrase is part of the question and in no chunk, or if no chunk contains the share ANSWERING of the
        question's content words.
        """
        question, missing = item["question"].strip(), item["missing"].strip()
        coverage = search.coverage(question)
        absent = missing.casefold() in question.casefold() and not search.names(missing)
        draft = Draft(
            question=question,
            language=language,
            generator=self._name,
            pattern="unanswerable_prompt",
            document=sources.documents[chunk],
            chunk=chunk,
            unanswerable_type=kind,
            checked=f'no chunk has "{missing}"' if absent else f"no chunk has {ANSWERING:.0%} of its words",
        )
        if absent or coverage < ANSWERING:
            return draft.validated(VALIDATED, "retrieval", 1 - coverage)
        return draft.validated(REJECTED, "retrieval", 1 - coverage, f"a chunk has {coverage:.0%} of its words")

    @property
    def _name(self) -> str:
        return str(getattr(self.questions.value, "model", self.questions.spec.target))

    def _ask(
        self,
        stage: str,
        part: BuiltPart,
        chunks: Mapping[int, str],
        task: str,
        sources: Sources,
        needed: Sequence[str],
    ) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield (chunk, language, item) for each complete item of the model's replies (see ``_read``).

        ``chunks`` maps the index of each chunk to its language; the items follow its order. ``task`` is the
        instruction to the model.
        """
        requests = [
            Request(
                f"Language: {LANGUAGES[language].title()}. {task}",
                (Passage(sources.chunk_id(chunk), sources.passages[chunk]),),
            )
            for chunk, language in chunks.items()
        ]
        answers = generate_once(self.executor, f"golden {stage}", part, requests)
        for (chunk, language), answer in zip(chunks.items(), answers, strict=True):
            yield from ((chunk, language, item) for item in self._read(answer, needed))

    def _read(self, answer: Answer, needed: Sequence[str]) -> list[dict[str, Any]]:
        """Return the complete items among the first A_CHUNK items of the JSON array in a reply.

        An item is complete if it is an object in which every ``needed`` field is a string that is not blank. A failed
        call, a reply without a JSON array, and each incomplete item are counted in ``faults``.
        """
        if answer.failed:
            self.failures += 1
            self.faults[f"call failed: {answer.failed}"] += 1
            return []
        begin, end = answer.text.find("["), answer.text.rfind("]")
        try:
            items = json.loads(answer.text[begin : end + 1]) if begin >= 0 else None
        except ValueError:
            items = None
        if not isinstance(items, list):
            self.faults["the reply is not a JSON array"] += 1
            return []
        whole = [
            one
            for one in items[:A_CHUNK]
            if isinstance(one, dict) and all(isinstance(one.get(key), str) and one[key].strip() for key in needed)
        ]
        self.faults[f"an object has no {' or no '.join(needed)}"] += len(items[:A_CHUNK]) - len(whole)
        return whole


def _draft(
    item: Mapping[str, Any], chunk: int, language: str, sources: Sources, mix: Mapping[str, float], name: str
) -> Draft:
    document, passage = sources.documents[chunk], sources.passages[chunk]
    quote, answer = str(item.get("quote") or ""), item["answer"].strip()
    places = next((found for text in (quote, answer) if text and (found := resolve(passage, text))), None)
    whole, wanted = (0, len(passage)), f"{item['question']} {quote} {answer}"
    begin, end = places[0] if places else best_sentence(wanted, passage, whole, language) or whole
    start = int(sources.spans.start[chunk])
    span: Span = (document, start + begin, start + end)
    kind, bloom, reasoning = (str(item.get(key) or "") for key in ("type", "bloom", "reasoning"))
    return Draft(
        question=item["question"].strip(),
        answer=answer,
        language=language,
        generator=name,
        pattern="prompt",
        document=document,
        chunk=chunk,
        evidence=(span,),
        explanation=passage[begin:end],
        question_type=kind if kind in mix else next(iter(mix), "factual"),
        bloom=bloom if bloom in BLOOM else BLOOM[1],
        reasoning_class=reasoning if reasoning in REASONING else SINGLE_FACT,
    )
