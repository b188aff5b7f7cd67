"""The pages of the documentation: all of them are in the navigation, and their links work on GitHub and in the site."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.commands import ROOT
from test_docs import script

DOCS = ROOT / "docs"
HOOKS = script("site_hooks")
WRITTEN = sorted(DOCS.rglob("*.md"))
SOURCES = [*(ROOT / name for name in HOOKS.PAGES), *WRITTEN]
PAGES = {*(page.relative_to(DOCS).as_posix() for page in WRITTEN), *HOOKS.PAGES.values()}
LINK = re.compile(r"\]\(([^)\s:#]*)(?:#([^)\s]+))?\)")
URL = "https://example.org/ragsweep"


def entries(navigation: Any) -> Iterator[str]:
    """Yield the pages of a navigation."""
    if isinstance(navigation, str):
        yield navigation
    else:
        for entry in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from entries(entry)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_navigation_once() -> None:
    listed = list(entries(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(listed) == sorted(PAGES)


@pytest.mark.parametrize("page", SOURCES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


@pytest.mark.parametrize("page", SOURCES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_rewritten_links_lead_to_pages_and_files_of_the_site(page: Path) -> None:
    made = DOCS / HOOKS.PAGES[page.name] if page.parent == ROOT else page
    for target, _ in LINK.findall(HOOKS.rewrite_links(page.read_text("utf-8"), page, "")):
        file = (made.parent / target).resolve()
        assert not target or file.relative_to(DOCS).as_posix() in PAGES or file.exists(), target
        assert file.suffix != ".py"


LINKS = {
    ("README.md", "[a](docs/parts.md#llm)"): "[a](parts.md#llm)",
    ("README.md", "![a](docs/sweep.png)"): "![a](sweep.png)",
    ("README.md", "[a](CONTRIBUTING.md)"): "[a](contributing.md)",
    ("CONTRIBUTING.md", "[a](README.md#x)"): "[a](index.md#x)",
    ("docs/parts.md", "[a](../README.md)"): "[a](index.md)",
    ("docs/api/types.md", "[a](../../SECURITY.md) [b](testing.md)"): "[a](../security.md) [b](testing.md)",
    ("docs/parts.md", "[a](../conf/llm)"): f"[a]({URL}/blob/HEAD/conf/llm)",
    ("docs/parts.md", "[a](https://b.c/d) [e](#f) `x[i](j)`"): "[a](https://b.c/d) [e](#f) `x[i](j)`",
}


@pytest.mark.parametrize(("source", "text"), LINKS)
def test_a_link_leads_to_the_page_that_is_made_from_its_file(source: str, text: str) -> None:
    assert HOOKS.rewrite_links(text, ROOT / source, URL) == LINKS[source, text]


def test_a_link_out_of_the_site_is_text_where_the_repository_has_no_url() -> None:
    assert HOOKS.rewrite_links("see [a](../conf/llm)", DOCS / "parts.md", "") == "see a"
