"""Documents for people and programs: statements, tables and charts in sections, with their data."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

GAP = 2
"""Spaces between the columns of a fitted table."""

Style = Literal["lines", "notes", "paragraphs", "heading", "commands", "definitions"]


class Statement(NamedTuple):
    """A sentence or phrase, and its label ("" for none); ``data`` contains the numbers and names in ``text``."""

    label: str
    text: str
    data: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Statements:
    """Statements in one style.

    ``lines``: one label and one phrase per statement, never wrapped. ``notes``: one label and one longer passage per
    statement. ``paragraphs``: conclusions, grouped by label. ``heading``: the evaluated configs, the questions, and
    notes. ``commands``: a command as the label, and its effect. ``definitions``: a name as the label, and its meaning.
    """

    items: Sequence[Statement]
    style: Style = "lines"
    title: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of strings; the headers of right-aligned columns begin with ``>``.

    ``headed``: the terminal prints the header. ``fitted``: the table is at most as wide as the terminal, with narrow
    gaps. ``detail``: the terminal omits the table, because statements name its most important rows. ``values``: the
    numbers by which a page sorts the cells; a cell with None is sorted by its text. ``marked``: for each row, whether a
    page emphasises the row.
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


def chart(figure: Mapping[str, Any], note: str = "", title: str = "") -> Charts:
    """Return a group that consists of a single chart."""
    return Charts([{"label": "", "figure": figure}], note, title)


@dataclass(frozen=True)
class Widget:
    """A part of an HTML page that other formats omit; ``item`` is the data from which the page's script draws it."""

    item: Mapping[str, Any]


Block = Statements | Table | Charts | Widget


@dataclass(frozen=True)
class Section:
    """Blocks below a title; ``key`` is the anchor of the section in an HTML page."""

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
        """The statements of all blocks, in order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return [one for block in blocks if isinstance(block, Statements) for one in block.items]


def lines(*statements: Statement | Iterable[Statement]) -> Statements:
    """Return statements, given singly or in iterables, as a block in the style ``lines``."""
    return Statements(_flat(statements))


def notes(*statements: Statement | Iterable[Statement]) -> Statements:
    """Return statements, given singly or in iterables, as a block in the style ``notes``."""
    return Statements(_flat(statements), "notes")


def paragraphs(label: str, *texts: Statement | Iterable[Statement]) -> Statements:
    """Return statements as a block of paragraphs; ``label`` replaces the label of each statement."""
    return Statements([one._replace(label=label) for one in _flat(texts)], "paragraphs")


def texts(statements: Iterable[Statement]) -> list[str]:
    """Return the texts of statements, without the labels."""
    return [one.text for one in statements]


def _flat(statements: Iterable[Statement | Iterable[Statement]]) -> list[Statement]:
    groups = ([one] if isinstance(one, Statement) else one for one in statements)
    return [statement for group in groups for statement in group]
