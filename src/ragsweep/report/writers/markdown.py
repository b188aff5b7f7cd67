"""Conversion of documents to Markdown, for a comment on a pull request or the summary of a CI job."""

from collections.abc import Iterator
from itertools import groupby

from ragsweep.core.escaping import markdown_text
from ragsweep.report.document import Block, Document, Statement, Statements, Table
from ragsweep.report.numbers import NOT_MEASURED


def as_markdown(document: Document, level: int = 3) -> str:
    """Return a document as Markdown, without its charts and widgets; Markdown characters in texts are escaped.

    ``level`` is the title's heading level: 3 for a section of a comment.
    """
    parts = [f"{'#' * level} {markdown_text(document.title)}\n"] if document.title else []
    for section in document.sections:
        written = [text for block in section.blocks for text in _block(block) if text]
        if written and section.title:
            parts.append(f"{'#' * (level + 1)} {markdown_text(section.title)}\n")
        parts += written
    return "\n".join(parts)


def _block(block: Block) -> Iterator[str]:
    if isinstance(block, Table):
        if block.rows:
            yield _table(block)
            if block.note:
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


def _table(table: Table) -> str:
    names = [name.removeprefix(">") for name in table.header]
    body = [[_cell(text) for text in row] for row in table.rows]
    lines = [[_cell(name) if name.strip() else name for name in names], ["---"] * len(names), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: str) -> str:
    return markdown_text(value).replace("|", "\\|") if value else NOT_MEASURED
