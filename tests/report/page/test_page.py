"""The page as a file: it loads nothing, and texts of the data stay texts."""

import json
from dataclasses import replace
from html.parser import HTMLParser

from ragsweep.core.results import Failure
from ragsweep.report.writers.html import write_page
from support import pages
from support.pages import HOSTILE, grid, source
from support.results import changed


class Reader(HTMLParser):
    """Read a page as a browser does: its elements, and the texts of its scripts."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.title = ""
        self._within = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts[-1] += data
        if self._within == "title":
            self.title += data


def test_hostile_texts_stay_texts() -> None:
    failures = [Failure(f"#9 {HOSTILE}", (), {}, HOSTILE)]
    document = pages.page(replace(source(grid({"3": 0.0, "5": 0.1}), failures), title=HOSTILE))
    read = Reader(write_page(document))
    assert len(read.scripts) == 3  # data, plotly, page
    assert json.loads(read.scripts[0]) == json.loads(json.dumps(document))
    assert not set("<>&\u2028\u2029") & set(read.scripts[0])
    assert read.title == HOSTILE
    assert [tag for tag, _ in read.elements if tag == "img"] == []
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)


def test_charts_have_no_markup_from_names() -> None:
    """Plotly reads some markup in texts: names are escaped for it."""
    results = [changed(one, name=f"{one.name} <a href='http://x'>x</a>") for one in grid({"3": 0.0, "5": 0.1})]
    sections = pages.page(source(results))["sections"]
    charts = [item for one in sections for item in one["items"] if item["kind"] == "charts"]
    written = json.dumps([option["figure"] for item in charts for option in item["options"]])
    assert "&lt;a href" in written
    assert "<a" not in written


def test_the_page_loads_nothing_and_its_scripts_write_text_only() -> None:
    read = Reader(write_page(pages.page(source(grid({"3": 0.0, "5": 0.1})))))
    assert not any({"src", "href"} & attributes.keys() for _, attributes in read.elements)
    (policy,) = [a["content"] for tag, a in read.elements if tag == "meta" and a.get("http-equiv")]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in read.scripts[2]
