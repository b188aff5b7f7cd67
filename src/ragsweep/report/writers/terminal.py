"""Output of documents on a terminal."""

from itertools import groupby

from ragsweep.report.document import GAP, Block, Document, Statements, Table
from ragsweep.report.terminal import Terminal


def show(document: Document, terminal: Terminal) -> None:
    """Print a document without its title, charts and widgets; sections are separated by an empty line."""
    for n, section in enumerate(document.sections):
        if n:
            terminal.line("", "")
        for block in section.blocks:
            show_block(block, terminal)


def show_block(block: Block, terminal: Terminal) -> None:
    """Print one block; nothing for charts, widgets, and tables whose ``detail`` is true."""
    if isinstance(block, Statements):
        _show_statements(block, terminal)
    elif isinstance(block, Table) and not block.detail:
        if not block.headed:
            terminal.aligned(block.rows)
        elif block.fitted:
            terminal.table(block.header, block.rows, gap=GAP, width=terminal.width)
        else:
            terminal.table(block.header, block.rows)
        if block.note:
            terminal.block("", [block.note])


def _show_statements(block: Statements, terminal: Terminal) -> None:
    if block.style == "lines":
        for one in block.items:
            terminal.line(one.label, one.text)
    elif block.style == "notes":
        for one in block.items:
            terminal.block(one.label, [one.text])
    elif block.style == "heading":
        terminal.heading([one.text for one in block.items])
    elif block.style == "commands":
        terminal.next_steps((one.label, one.text) for one in block.items)
    elif block.style == "definitions":
        terminal.block(block.title, [f"{one.label}: {one.text}" for one in block.items])
    else:
        for label, items in groupby(block.items, lambda one: one.label):
            terminal.block(label, [one.text for one in items])
