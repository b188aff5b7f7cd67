"""Documents for people and programs: statements, tables and charts in sections, and the facts behind them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

GAP = 2
"""Spaces between the columns of a fitted table."""

Style = Literal["lines", "notes", "paragraphs", "heading", "commands", "definitions"]


class Statement(NamedTuple):
    """One statement and its label ("" for none), with the numbers and names that the statement contains."""

    label: str
    text: str
    data: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Statements:
    """Statements in one style.

    ``lines``: a label and a fact each, never wrapped. ``notes``: a label and a longer text each. ``paragraphs``:
    conclusions, grouped by label. ``heading``: what was evaluated, and on which questions. ``commands``: a command and
    its effect. ``definitions``: a name and its meaning.
    """

    items: Sequence[Statement]
    style: Style = "lines"
    title: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of strings; the headers of right-aligned columns begin with ``>``.

    ``headed``: the terminal prints the header. ``fitted``: the table is at most as wide as the terminal, with narrow
    gaps. ``detail``: the terminal omits the table, because statements name its most important rows. ``values``: the
    numbers by which a page sorts the cells; a cell without one (None) is sorted by its text. ``marked``: for each row,
    whether a page emphasises it.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    title: str = ""
    headed: bool = True
    fitted: bool = False
    detail: bool = False
    values: Sequence[Sequence[float | None]] = ()
    marked: Sequence[bool] = ()


@dataclass(frozen=True)
class Charts:
    """A group of charts shown one at a time; each option has a label, a figure, and optionally its own note."""

    options: Sequence[Mapping[str, Any]]
    note: str = ""
    title: str = ""


@dataclass(frozen=True)
class Widget:
    """A part of an HTML page that other formats omit; ``item`` is the input of the page's script."""

    item: Mapping[str, Any]


Block = Statements | Table | Charts | Widget


@dataclass(frozen=True)
class Section:
    """Blocks below a title; ``key`` is the section's anchor on a page."""

    blocks: Sequence[Block]
    title: str = ""
    key: str = ""


@dataclass(frozen=True)
class Document:
    """A title and sections for people, and ``facts`` in JSON types for programs."""

    title: str
    sections: Sequence[Section]
    facts: Any = field(default_factory=dict)

    @property
    def statements(self) -> list[Statement]:
        """All statements, in order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return [one for block in blocks if isinstance(block, Statements) for one in block.items]


def lines(*statements: Statement | Iterable[Statement]) -> Statements:
    """Collect statements, single or in iterables, as lines."""
    return Statements(_flat(statements))


def notes(*statements: Statement | Iterable[Statement]) -> Statements:
    """Collect statements, single or in iterables, as notes."""
    return Statements(_flat(statements), "notes")


def paragraphs(label: str, *texts: Statement | Iterable[Statement]) -> Statements:
    """Collect statements as paragraphs below one label."""
    return Statements([one._replace(label=label) for one in _flat(texts)], "paragraphs")


def texts(statements: Iterable[Statement]) -> list[str]:
    """List the texts of statements."""
    return [one.text for one in statements]


def _flat(statements: Iterable[Statement | Iterable[Statement]]) -> list[Statement]:
    groups = ([one] if isinstance(one, Statement) else one for one in statements)
    return [statement for group in groups for statement in group]
