"""Read the records of a file (a table, JSON lines, JSON, Parquet, YAML or topics), and convert their values."""

import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from ragsweep.core.errors import Faults
from ragsweep.golden.reading import Row, normal_id, read_object, read_rows, read_yaml
from ragsweep.golden.structured_cells import decoded, plain_text, plain_texts
from ragsweep.golden.tables import Columns, is_table, read_table
from ragsweep.golden.topics import FIELDS, has_topics, read_topics
from ragsweep_golden.sets.entries import is_filled

FIELD_NAMES: Mapping[str, Any] = tomllib.loads(files(__package__).joinpath("field_names.toml").read_text("utf-8"))
_TEXTS, _DOCUMENTS, _MARKS, _WRAPPERS = (
    FIELD_NAMES["records"][name] for name in ("texts", "documents", "marks", "wrappers")
)
_ASKED = {"question", "query", "user_input", "input", "inputs", "prompt", "messages"}


def read_records(path: Path, faults: Faults, of_records: Faults | None = None) -> list[Row]:
    """Return all records of a file and add its faults to ``faults``.

    If the only record of the file has no question but has a list of records, the records of that list are returned. The
    faults of single records, except those of tables, are added to ``of_records``, by default ``faults``.
    """
    if is_table(path):
        return list(read_table(path, Columns("", {}, (), ()), faults))
    of_records = of_records or faults
    of_file = faults.apart()
    of_lines = of_file if of_records is faults else of_records.apart()
    rows = list(_read_rows(path, of_file, of_lines))
    if (of_file.found or of_lines.found) and (root := read_object(path, faults.apart())):
        rows = [root]
    else:
        faults.found += of_file.found
        if of_records is not faults:
            of_records.found += of_lines.found
    if len(rows) == 1 and not _ASKED & {*rows[0].values}:
        lists = [name for name in _WRAPPERS if isinstance(rows[0].values.get(name), list)]
        rows = Row(rows[0].where, rows[0].values, of_records).parts(lists[0]) if lists else rows
    return rows


def _read_rows(path: Path, faults: Faults, of_records: Faults) -> Iterator[Row]:
    if path.suffix.lower() in (".yaml", ".yml"):
        yield from read_yaml(path, of_records)
    elif path.suffix != ".parquet" and has_topics(path, faults):
        for topic in read_topics(path, faults):
            texts = {name: topic.text(name) for name in FIELDS}
            question = texts.pop("title") or texts["description"]
            yield Row(topic.where, {"id": topic.text("number"), "question": question, **texts}, faults)
    else:
        yield from read_rows(path, faults, of_records)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, or the object that a string represents in JSON or Python syntax; {} for any other value.

    Raises ValueError as ``decoded`` does.
    """
    found = decoded(value)
    return found if isinstance(found, dict) else {}


def as_texts(value: Any) -> list[str]:
    """Return the strings in a list, or the parts of one string, split at semicolons or, without a semicolon, at commas.

    Raises ValueError as ``plain_texts`` does.
    """
    return [text.strip() for text in plain_texts(_parts(value))]


def as_documents(value: Any, known: Container[str]) -> list[str | None]:
    """Return the ids in a list, including nested lists as in AutoRAG, or in a string (see ``as_texts``).

    A string that is itself an id in ``known`` is not split. Blank ids of a list are None, and repeated ids are kept, so
    that each id can be paired with a passage. Raises ValueError as ``plain_text`` does.
    """
    parts = [value] if isinstance(value, str) and normal_id(value.strip()) in known else _parts(value)
    ids = [item for one in as_items(parts) for item in (one if isinstance(one, list) else [one])]
    return [plain_text(one).strip() or None for one in ids]


def _parts(value: Any) -> Any:
    found = decoded(value)
    if not isinstance(found, str):
        return found
    return [part for part in found.split(";" if ";" in found else ",") if part.strip()]


def as_passages(value: Any, supporting: Any) -> list[tuple[str, str | None]]:
    """Return (text, document id or None) for each passage; passages that are marked as irrelevant are omitted.

    ``value`` is a passage or a list of passages. If ``supporting`` is given, ``value`` lists (title, sentences) pairs,
    as in HotpotQA. Then only the sentences whose title and number (from 0) are in ``supporting`` are returned. Raises
    ValueError for any other value, such as a passage with neither a text nor an id.
    """
    items = as_items(decoded(value))
    if is_filled(supporting):
        pairs = map(_pair, as_items(decoded(supporting)))
        facts = [(plain_text(title), number if isinstance(number, int) else str(number)) for title, number in pairs]
        titled = [(plain_text(title), sentences) for title, sentences in map(_pair, items)]
        return [(sentence, None) for sentence in _sentences(titled, facts)]
    passages = [item if isinstance(item, dict) else {"text": item if is_filled(item) else " "} for item in items]
    right = [one for one in passages if all(one.get(mark) not in (False, 0) for mark in _MARKS)]
    return [(_first(one, _TEXTS) or "", _first(one, _DOCUMENTS)) for one in right]


def as_items(found: Any) -> list[Any]:
    """Return a list unchanged, a mapping of lists of equal length as rows, and any other value as a list of one."""
    columns = list(found.values()) if isinstance(found, dict) else []
    if columns and all(isinstance(one, list) and len(one) == len(columns[0]) for one in columns):
        return [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]
    return found if isinstance(found, list) else [found]


def _pair(item: Any) -> list[Any]:
    pair = list(item.values()) if isinstance(item, dict) else item
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError('must have [title, sentences] pairs, and "supporting_facts" [title, number] pairs')
    return pair


def _sentences(titled: Sequence[tuple[str, Any]], facts: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Yield the sentences that (title, number) pairs refer to, each once; raises ValueError if one is missing."""
    paragraphs = {title: plain_texts(sentences) for title, sentences in titled}
    for title, number in dict.fromkeys(facts):
        sentences = paragraphs.get(title, [])
        if not isinstance(number, int) or not 0 <= number < len(sentences):
            fact = f'has no sentence {number} of "{title}" (counted from 0), which "supporting_facts" names'
            raise ValueError(f"{fact}; correct or remove that pair")
        yield sentences[number].strip()


def _first(item: Mapping[str, Any], names: Sequence[str]) -> str | None:
    if not any(is_filled(item.get(name)) for name in (*_TEXTS, *_DOCUMENTS)):
        raise ValueError(f"has a passage with none of the fields {', '.join((*_TEXTS, *_DOCUMENTS))}; add one")
    found = next((item[name] for name in names if is_filled(item.get(name))), None)
    return found if isinstance(found, str | None) else plain_text(found)  # a passage may itself be JSON
