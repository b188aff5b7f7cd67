"""Documents as Markdown, for a comment on a change or the summary of a job."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ragsweep.core.escaping import markdown_text
from ragsweep.report.document import Block, Document, Statement, Statements, Table
from ragsweep.report.numbers import NOT_MEASURED


def as_markdown(document: Document, level: int = 3) -> str:
    """Write a document without its charts and widgets; texts are escaped, so as not to alter the surrounding Markdown.

    ``level`` is the title's heading level: 3 for a section of a comment.
    """
    heads = [f"{'#' * level} {markdown_text(document.title)}\n"] if document.title else []
    return "\n".join([*heads, *_parts(document, level + 1)])


def _parts(document: Document, level: int) -> Iterator[str]:
    for section in document.sections:
        written = [text for block in section.blocks for text in _block(block) if text]
        if written and section.title:
            yield f"{'#' * level} {markdown_text(section.title)}\n"
        yield from written


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        yield markdown_table(block.header, block.rows)
        if block.rows and block.note:
            yield f"{markdown_text(block.note)}\n"
    elif isinstance(block, Statements) and block.style == "paragraphs":
        for label, items in groupby(block.items, lambda one: one.label):
            head = f"**{markdown_text(label.capitalize())}.** " if label else ""
            yield f"{head}{markdown_text(' '.join(dict.fromkeys(one.text for one in items)))}\n"
    elif isinstance(block, Statements):
        yield "".join(_bullet(one, block.style == "commands") for one in block.items)


def _bullet(statement: Statement, is_command: bool) -> str:
    label = f"`{statement.label}`" if is_command else markdown_text(statement.label)
    return f"- {f'{label}: ' if statement.label else ''}{markdown_text(statement.text)}\n"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table; "" if there are no rows. Texts cannot break out of their cells."""
    body = [[_cell(text) for text in row] for row in rows]
    if not body:
        return ""
    names = [name.removeprefix(">") for name in header]
    lines = [[_cell(name) if name.strip() else name for name in names], ["---"] * len(names), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: str) -> str:
    return markdown_text(value).replace("|", "\\|") if value else NOT_MEASURED
