"""Hooks of mkdocs: pages made from files above docs/, and links that work on GitHub and in the site."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Pages of the site by the file at the root that they are made from."""

_LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages made from files at the root."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page."""
    made = {name: source for source, name in PAGES.items()}
    source = made.get(page.file.src_uri)
    return rewrite_links(markdown, ROOT / source if source else DOCS / page.file.src_uri, repository())


def repository() -> str:
    """Return ``[project.urls] Repository`` of pyproject.toml; empty where there is none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project.get("urls", {}).get("Repository", "")).rstrip("/")


def rewrite_links(markdown: str, source: Path, url: str) -> str:
    """Rewrite links that are relative to ``source`` for the page of the site that is made from it.

    A link within docs/, or to a file that has a page, leads to the page. A link to any other file of the repository
    leads to ``url``; without a URL only its text remains. A link to a file that does not exist is left unchanged.
    """
    page = DOCS / PAGES.get(source.name, "") if source.parent == ROOT else source

    def rewrite(link: re.Match[str]) -> str:
        file = Path(os.path.normpath(source.parent / link["path"]))
        if not file.exists() or not file.is_relative_to(ROOT):
            return link[0]
        if file.parent == ROOT:
            file = DOCS / PAGES[file.name] if file.name in PAGES else file
        if file.is_relative_to(DOCS):
            return f"{link['text']}({Path(os.path.relpath(file, page.parent)).as_posix()}{link['anchor'] or ''})"
        outside = f"({url}/blob/HEAD/{file.relative_to(ROOT).as_posix()}{link['anchor'] or ''})"
        return link["text"] + outside if url else link["text"].strip("![]")

    return _LINK.sub(rewrite, markdown)
