"""Hooks of mkdocs: pages made from files above docs/, and links that work on GitHub and in the site."""

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
"""Pages of the site, by the file at the root from which they are made."""

_LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages made from files at the root."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links of a page."""
    written = {made: ROOT / source for source, made in PAGES.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    url = project.get("urls", {}).get("Repository", "").rstrip("/")
    return rewrite_links(markdown, written.get(page.file.src_uri, DOCS / page.file.src_uri), url)


def rewrite_links(markdown: str, source: Path, url: str) -> str:
    """Rewrite links that are relative to ``source`` for the page of the site that is made from it.

    A link within docs/, or to a file that has a page, leads to the page. A link to any other file of the repository
    leads to ``url``; without a URL only its text remains. A link to a file that does not exist is left unchanged.
    """
    pages = {ROOT / name: DOCS / made for name, made in PAGES.items()}

    def rewrite(link: re.Match[str]) -> str:
        text, file, anchor = link["text"], Path(os.path.normpath(source.parent / link["path"])), link["anchor"] or ""
        if not (file.exists() and file.is_relative_to(ROOT)):
            return link[0]
        if (target := pages.get(file, file)).is_relative_to(DOCS):
            return f"{text}({Path(os.path.relpath(target, pages.get(source, source).parent)).as_posix()}{anchor})"
        return f"{text}({url}/blob/HEAD/{file.relative_to(ROOT).as_posix()}{anchor})" if url else text.strip("![]")

    return _LINK.sub(rewrite, markdown)
