"""Define the known record layouts of other tools, and convert their records to records without nesting."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError, InputError
from ragsweep.golden.golden_format import QUESTION_KEYS
from ragsweep.golden.structured_cells import decoded, plain_texts
from ragsweep.golden.tables import is_table
from ragsweep_golden.evidence.passages import sentence_around
from ragsweep_golden.exchange.drafts import CARRIED, LISTS, PASSAGES, PLACES, RIGHT, SAID, FlatRecord, as_note, place_of
from ragsweep_golden.exchange.records import as_items, as_mapping, as_texts
from ragsweep_golden.sets.entries import is_filled


class Layout(NamedTuple):
    """A record layout: how to recognise it, and how to flatten its records.

    ``needs``: groups of fields; a file in this layout has at least one field of each group. ``lacks``: fields that
    occur only in similar layouts. ``names`` maps a field of this layout to the name under which the field is read.
    """

    needs: tuple[tuple[str, ...], ...]
    flatten: Callable[[Mapping[str, Any]], FlatRecord] = FlatRecord
    names: Mapping[str, str] = {}
    lacks: tuple[str, ...] = ()

    def fields(self, record: Mapping[str, Any]) -> FlatRecord:
        """Return the record without nesting.

        Raises ValueError, KeyError, TypeError or AttributeError if the record does not have this layout.
        """
        flat = self.flatten(record)
        return flat._replace(fields={self.names.get(name, name): value for name, value in flat.fields.items()})


def _of_mlflow(record: Mapping[str, Any]) -> FlatRecord:
    tags = dict(as_mapping(record.get("tags")))
    carried = as_mapping(tags.pop(CARRIED, None))
    labels = {name: tag for name, tag in tags.items() if not name.startswith("mlflow.")}
    own = {"id": record.get("dataset_record_id"), "labels": labels}
    inputs, expectations = as_mapping(record["inputs"]), as_mapping(record.get("expectations"))
    others = _others(record, "inputs", "dataset_record_id", objects=("expectations", "tags"))
    return FlatRecord({**own, **inputs, **expectations}, carried, others)


def _of_argilla(record: Mapping[str, Any]) -> FlatRecord:
    metadata = dict(as_mapping(record.get("metadata")))
    carried = as_mapping(metadata.pop(CARRIED, None))
    answers = {name: [one["value"]] for name, one in as_mapping(record.get("suggestions")).items()}
    responses = {name: [one["value"] for one in given] for name, given in as_mapping(record.get("responses")).items()}
    answers |= {name: given for name, given in responses.items() if any(map(is_filled, given))}
    given = _answered(answers)
    fields = {"id": record.get("id"), **metadata, **as_mapping(record["fields"]), **given}
    others = _others(record, "id", "fields", "_server_id", objects=("metadata", "suggestions", "responses"))
    return FlatRecord(fields, carried, others)


def _of_label_studio(record: Mapping[str, Any]) -> FlatRecord:
    data = dict(as_mapping(record["data"]))
    carried = as_mapping(data.pop(CARRIED, None))
    done = [one for one in decoded(record.get("annotations")) or () if not one.get("was_cancelled")]
    answers: dict[str, list[Any]] = {}
    for one in done or decoded(record.get("predictions")) or ():
        for result in one["result"]:
            if "value" not in result:  # a relation between two other results
                continue
            value = result["value"]
            marked = result["type"] not in value or result["type"].endswith("labels")
            name = PASSAGES if marked and "start" in value else result["from_name"]
            texts = value.get("text" if marked else result["type"])
            answers.setdefault(name, []).extend(texts if isinstance(texts, list) else [texts])
    fields = {"id": record.get("id"), **data, **_answered(answers)}
    return FlatRecord(fields, carried, _others(record, "id", "data", "annotations", "predictions"))


def _answered(answers: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the fields that annotators filled: all values of passages and lists, but otherwise only the first value.

    ``answers`` maps a field to its responses or suggestions. Of the fields for right answers, only the first that is
    filled is returned, with all its texts. Its name becomes ``correction``, which has precedence over the answer in the
    record.
    """
    fields: dict[str, Any] = {}
    ranked = sorted(answers, key=lambda name: PLACES.get(name, ("", 0))[1])
    for name in ranked:
        given = [value for value in answers[name] if is_filled(value)]
        place = place_of(name)
        if place == "reference" and given:
            fields.setdefault("correction", [text for value in given for text in plain_texts(value)])
        elif place in (*LISTS, PASSAGES):
            parts = given if place == PASSAGES else map(decoded, given)
            fields[name] = [one for value in parts for one in (value if isinstance(value, list) else [value])]
        elif given:
            fields[name] = given[0]
    return fields


def _others(record: Mapping[str, Any], *known: str, objects: Collection[str] = ()) -> list[str]:
    """Return the names of filled fields, except those in ``known`` and, if the value is an object, in ``objects``."""
    filled = {name: value for name, value in record.items() if name not in known and is_filled(value)}
    return [name for name, value in filled.items() if not (name in objects and as_mapping(value))]


def _of_langsmith(record: Mapping[str, Any]) -> FlatRecord:
    """Flatten a LangSmith example.

    The only output, or the only output whose name denotes a right answer, becomes the reference; otherwise, outputs
    keep their names. Raises ValueError if the outputs are neither empty nor an object.
    """
    outputs = as_mapping(record["outputs"])
    if is_filled(record["outputs"]) and not outputs:
        raise ValueError('"outputs" is not an object; use format=mlflow if it is a system\'s output')
    said = {name: _content(value) for name, value in outputs.items()}
    answers = [name for name in said if place_of(name) == "reference"] or list(said)
    right = {"reference" if answers == [name] else name: content for name, content in said.items()}
    fields = {"id": record.get("id"), **as_mapping(record.get("metadata")), **as_mapping(record["inputs"]), **right}
    return FlatRecord(fields, {}, _others(record, "id", "inputs", "outputs", objects=("metadata",)))


def _content(value: Any) -> Any:
    """Return the content of a message, or of the last message of a list; return any other value unchanged."""
    found = decoded(value)
    last = found[-1] if isinstance(found, list) and found and isinstance(found[-1], dict) else found
    return last.get("content", value) if isinstance(last, dict) else value


_ASSERTED = {
    **dict.fromkeys(("equals", "similar", "factuality", "model-graded-factuality"), "reference"),
    **dict.fromkeys(("contains", "icontains", "contains-all", "icontains-all"), "keywords"),
}
"""Type of a promptfoo assertion -> the field that its value becomes; assertions of other types are dropped."""

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def _of_promptfoo(record: Mapping[str, Any]) -> FlatRecord:
    """Flatten a promptfoo test: add its assertions' values to the right answers and keywords in its variables.

    Variables in these values are substituted; an assertion whose value still has a template is dropped. A single string
    in ``contains-all`` or ``icontains-all`` lists the keywords, separated by commas.
    """
    given = as_mapping(record["vars"])
    fields: dict[str, Any] = {**as_mapping(record.get("metadata")), **given}
    left = _others(record, "vars", "assert", "description", objects=("metadata",))
    for one in record.get("assert") or ():
        place = _ASSERTED.get(one["type"])
        texts = plain_texts(one["value"]) if place else []
        texts = [_VARIABLE.sub(lambda found: as_note(given.get(found[1], found[0])), text) for text in texts]
        if one["type"].endswith("-all") and texts and not isinstance(decoded(one["value"]), list):
            texts = [part.strip() for part in texts[0].split(",") if part.strip()]
        if place and not any("{{" in text or "{%" in text for text in texts):
            earlier = as_texts(fields.get(place)) if place == "keywords" else plain_texts(fields.get(place))
            fields[place] = [*earlier, *texts]
        else:
            left.append(f"assert {one['type']}")
    return FlatRecord({"notes": record.get("description"), **fields}, {}, left)


def _of_squad(record: Mapping[str, Any]) -> FlatRecord:
    """Flatten a question of SQuAD; a question without answers, or marked ``is_impossible``, is unanswerable.

    The evidence is the sentence around each answer, or the whole context if no answer is at its stated place.
    """
    context, answers = decoded(record["context"]), as_items(decoded(record["answers"]))
    if not isinstance(context, str):
        return FlatRecord(record)
    answers = [one if isinstance(one, dict) else {"text": one} for one in answers]
    fields = {**record, "context": None, "is_impossible": None, "answers": [one["text"] for one in answers]}
    is_impossible = str(record.get("is_impossible")).lower() == "true"
    if is_impossible or not any(map(is_filled, fields["answers"])):
        return FlatRecord(fields | {"answerable": False}, {}, ["context"])
    starts = [len(context) if (start := one.get("answer_start")) is None else start for one in answers]
    spans = [(start, start + len(one["text"])) for one, start in zip(answers, starts, strict=True)]
    spans = [span for one, span in zip(answers, spans, strict=True) if context[slice(*span)] == one["text"]]
    sentences = dict.fromkeys(sentence_around(context, span).strip() for span in spans)
    return FlatRecord(fields | {PASSAGES: list(sentences) or [context]})


def _of_own_columns(record: Mapping[str, Any]) -> FlatRecord:
    """Flatten an object with the columns of ragsweep's table: the ``document`` and its ``anchor`` are the evidence."""
    fields = {name: value for name, value in record.items() if name not in ("document", "anchor")}
    given = {"reference_context_ids": record.get("document"), "reference_contexts": record.get("anchor")}
    filled = {name: as_items(decoded(value)) for name, value in given.items() if is_filled(value)}
    return FlatRecord(fields | filled)


def _of_deepeval(record: Mapping[str, Any]) -> FlatRecord:
    """Flatten a golden of DeepEval; a context that is a single string, as in a table, is split at vertical bars."""
    context = decoded(record.get("context"))
    return FlatRecord({**record, "context": context.split("|") if isinstance(context, str) else context})


NAME_FIELDS = "name the fields: question=FIELD reference=FIELD passages=FIELD"
_NO_EXAMPLE = ("expectations", "dataset_record_id", "tags", "trace", "trace_id", "request_id", "run_type")
"""Fields that an example of LangSmith lacks, but records of MLflow and runs of LangSmith have."""
LAYOUTS = {
    "langsmith": Layout((("inputs",), ("outputs",)), _of_langsmith, lacks=_NO_EXAMPLE),
    "mlflow": Layout((("inputs",),), _of_mlflow),
    "argilla": Layout((("fields",),), _of_argilla),
    "labelstudio": Layout((("data",), ("annotations", "predictions", "data")), _of_label_studio),
    "promptfoo": Layout((("vars",),), _of_promptfoo),
    "ragas": Layout((("user_input",),)),
    "ragas_0.1": Layout((("question",), ("ground_truth", "ground_truths"), ("evolution_type",))),
    "deepeval": Layout(
        (("input",), ("expected_output", "actual_output")),
        _of_deepeval,
        {"context": "reference_contexts", "source_file": "reference_context_ids"},
    ),
    "llamaindex": Layout((("query",), ("reference_answer", "reference_contexts"))),
    "autorag": Layout((("qid",), ("query",), ("retrieval_gt",))),
    "ragchecker": Layout((("query",), ("gt_answer",))),
    "flashrag": Layout((("question",), ("golden_answers",))),
    "squad_rows": Layout((("question",), ("answers",), ("context",)), _of_squad),
    "keywords": Layout((("question", "query"), ("expected_keywords",))),
    "chunks": Layout((("query", "question"), ("relevant_chunks",))),
    "csv": Layout((("id",), ("question",), ("document", "reference", "answerable")), _of_own_columns),
    "faq": Layout((("question", "query"), (*SAID, *RIGHT))),
    "topics": Layout((("question",), ("description",), ("narrative",))),
    "counts": Layout((("question", "query"), ("count", "frequency")), names={"count": "weight", "frequency": "weight"}),
}
"""Format -> layout; the first that fits a file is used, so layouts with unique fields come first."""


_SHOWN = 20  # maximum number of fields that a message lists; an object may have a field per question


def recognise(path: Path, columns: Iterable[str]) -> str:
    """Return the first format whose layout fits the fields of the records in a file.

    A table with ``id`` and ``question`` that fits no layout is in ragsweep's format. Raises InputError for other files.
    """
    seen = list(columns)
    for name, layout in LAYOUTS.items():
        if all(any(field in seen for field in either) for either in layout.needs) and not {*layout.lacks} & {*seen}:
            return name
    if is_table(path) and {"id", "question"} <= {*seen}:
        return "csv"
    known = [f"{name} ({', '.join(' or '.join(either) for either in one.needs)})" for name, one in LAYOUTS.items()]
    shown = [*seen[:_SHOWN], "..."] if len(seen) > _SHOWN else seen
    raise InputError(
        f"{path}: unknown format with the fields {', '.join(shown) or '(none)'}; {NAME_FIELDS} (any of"
        f" {', '.join(COLUMNS)}); known formats: {'; '.join(known)}; beir, trec and squad are read with a"
        " reader, such as dataset=squad dataset.path=FILE"
    )


COLUMNS = {
    **{
        name: name
        for name in ("id", "question", "answerable", "reference", "keywords", PASSAGES, "category", "weight", "notes")
    },
    "documents": "reference_context_ids",
}
"""Role that ``format=columns`` can assign to a field -> the name by which the field is read."""


def layout_of_columns(columns: Mapping[str, str]) -> Layout:
    """Return the layout for ``columns``: a mapping of roles to names or paths of fields (``inputs.question``).

    Raises ConfigError if no field has the role of the question.
    """
    if "question" not in columns:
        raise ConfigError("golden import: the named fields must include the question; add question=FIELD")
    needs = tuple(tuple(dict.fromkeys((path, path.partition(".")[0]))) for path in columns.values())
    return Layout(needs, partial(_of_columns, columns))


def _of_columns(columns: Mapping[str, str], record: Mapping[str, Any]) -> FlatRecord:
    """Return the fields with a role, the fields of ragsweep's format whose names are not roles, and unknown fields.

    ``columns`` maps roles to fields. Other known fields, which may be a system's outputs, and a field ``evidence``
    without a role are dropped.
    """
    fields = {COLUMNS[place]: _at(record, path) for place, path in columns.items()}
    used = [name for path in columns.values() for name in (path, path.partition(".")[0])]
    kept = {*QUESTION_KEYS}.difference(columns, ["evidence"])
    left = [name for name in _others(record, *used, *kept) if place_of(name)]
    plain = {name: record[name] for name in _others(record, *used, *left)}
    return FlatRecord(plain | fields, {}, left)


def _at(record: Mapping[str, Any], path: str) -> Any:
    found: Any = record
    for name in [path] if path in record else path.split("."):
        found = as_mapping(found).get(name)
    return found
