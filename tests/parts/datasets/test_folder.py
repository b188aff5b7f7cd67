import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.types import Dataset
from ragsweep.golden.pages import ENDINGS, doubts
from ragsweep.parts.datasets import Folder
from ragsweep.testing.datasets import DatasetContract
from support import faults_of, write_rows
from support.inputs.pdf_files import pdf, printed

GOLDEN = [{"id": "q", "question": "what", "answerable": False}]


def folder(path: Path, pages: Mapping[str, str | bytes], golden: list[dict[str, Any]] = GOLDEN, **more: Any) -> Folder:
    """Write pages by their ids, and the golden file beside their folder."""
    root = path / "pages"
    root.mkdir(exist_ok=True)
    for name, content in pages.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    write_rows(path / "golden.jsonl", golden)
    usual = {"exclude": [], "unknown": "error", "limit": None, "seed": 0, "repeated_passages": False}
    return Folder(str(root), str(path / "golden.jsonl"), **(usual | more))


def texts(dataset: Dataset) -> dict[str, tuple[str, str]]:
    corpus = dataset.corpus
    return {name: (title, text) for name, title, text in zip(corpus.ids, corpus.titles, corpus.texts, strict=True)}


class TestFolder(DatasetContract):
    @pytest.fixture(autouse=True)
    def _reader(self, tmp_path: Path) -> None:
        part = folder(tmp_path, {"guide/page.md": "# Guide\n"})
        self.part = lambda: part


PAGES = {
    "text.txt": ("  As it\nis. \n", ("", "  As it\nis. \n")),
    "markdown.md": (
        "# The *title*\n\nSome [link](http://x) and `code`\nagain.\n\n"
        "```python\ndef f():\n    return 1\n```\n\n* one\n",
        (
            "The title",
            "# The *title*\n\nSome [link](http://x) and `code`\nagain.\n\n"
            "```python\ndef f():\n    return 1\n```\n\n* one\n",
        ),
    ),
    "front.md": ("---\ntitle: 'In front'\ntags: [a]\n---\n\n# Body\n", ("In front", "# Body\n")),
    "page.html": (
        "<html><head><title>A &amp; b</title><style>p {}</style></head><body><h1>He<b>ll</b>o</h1><p>one<br>two"
        "<!-- no --></p><script>no</script><pre><span>x = 1\n</span>  <span>y</span></pre></body></html>",
        ("A & b", "Hello\n\none\n\ntwo\n\nx = 1\n  y"),
    ),
    "restructured.rst": (
        "Title\n=====\n\nSome *text* and :func:`os.path`.\n\n.. a comment\n\n"
        ".. versionadded:: 3\n   New.\n\n.. code::\n\n   x = 1\n",
        ("Title", "Title\n\nSome text and :func:`os.path`.\n\n.. versionadded:: 3\n   New.\n\nx = 1"),
    ),
    "printed.pdf": (pdf("Hello from a page"), ("A printed page", "Hello from a page")),
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_page_becomes_its_text(tmp_path: Path, name: str) -> None:
    content, expected = PAGES[name]
    assert texts(folder(tmp_path, {name: content}).load()) == {name: expected}


FRONT = {  # a block -> the title, where the page's heading is "Head"
    "title:\nauthor: Jane Doe": "Head",
    "title: >\n  A long\n  folded title": "A long folded title",
    "title: 'It''s'": "It's",
    "title: Foo # comment": "Foo",
    "title: 2024-01-02": "2024-01-02",
    "title: 1e3": "1e3",
    "title: null": "Head",
    "title: [a, b]": "Head",
    "": "Head",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\ntitle: Foo": "Foo",
    "title: Foo: bar\ntags:\n- a\n\n# more\ndate created: x: y": "Foo: bar",  # not YAML from here on
    "title:\t[Draft] Foo\r": "[Draft] Foo",
    "title:\ntext: a: b": "Head",
    f"title: Foo\ntext: {'[' * 10_000}": "Foo",
    "a: b\n" * 20_000 + "title: Foo": "Foo",
}


@pytest.mark.parametrize(("block", "title"), FRONT.items(), ids=map(str, range(len(FRONT))))
def test_front_matter_is_no_text_and_its_title_is_that_of_yaml(block: str, title: str) -> None:
    assert ENDINGS[".md"](f"---\n{block}\n--- \n\n\n# Head\n\n---\n\nbody\n")[:2] == (title, "# Head\n\n---\n\nbody\n")


@pytest.mark.parametrize(
    "block",
    [
        "# Head\n\nHotels cost up to 120 euros.\n",
        "# Head",
        "Some text:\n\n# Head\n\nAt 9: breakfast: included.\n\nHotels cost less.\n",
        "- one\n- two\n\n# Head\n",
        f"# Head\n\n{'words ' * 20_000}",
        "title: Foo\n...\n\n# Head\n\nText\n",
    ],
)
def test_text_between_thematic_breaks_is_not_front_matter(block: str) -> None:
    page = f"---\n{block}\n---\n\nbody\n"
    assert ENDINGS[".md"](page)[:2] == ("Head", page)


def test_title_of_a_drawing_is_not_that_of_the_page() -> None:
    drawing = "<svg><title>Menu icon</title></svg>"
    assert ENDINGS[".html"](f"{drawing}<h1>Expenses</h1>")[:2] == ("Expenses", "Expenses")
    assert ENDINGS[".html"](f"{drawing}<title>Page</title><h1>Expenses</h1>").title == "Page"


WIDE_SPACE = f"/FirstChar 32 /LastChar 126 /Widths [600 {'500 ' * 94}]"  # the space as glyph; the text moves instead
LINES = "BT /F1 12 Tf 10 150 Td (admin-) Tj 0 -14 Td (istrator, --well-) Tj 0 -14 Td (known: well-known) Tj ET"
PRINTED = {
    "words apart by kerning": (
        printed("BT /F1 12 Tf 10 150 Td [(Lack)-250(of)-250(attention)] TJ ET", font=WIDE_SPACE),
        "Lack of attention",
    ),
    "ligature": (
        printed(r"BT /F1 12 Tf 10 150 Td (\201nd) Tj ET", font="/Encoding << /Differences [129 /fi] >>"),
        "find",
    ),
    "hyphens at line ends": (printed(LINES), "administrator, --well-known: well-known"),
    "lines and pages": (
        printed("BT /F1 12 Tf 10 150 Td (One) Tj 0 -14 Td (two.) Tj ET", "BT /F1 12 Tf 10 150 Td (Three) Tj ET"),
        "One\ntwo.\n\nThree",
    ),
}


@pytest.mark.parametrize("kind", PRINTED)
def test_pdf_is_read_as_it_is_printed(tmp_path: Path, kind: str) -> None:
    content, expected = PRINTED[kind]
    assert texts(folder(tmp_path, {"a.pdf": content}).load()) == {"a.pdf": ("A printed page", expected)}


GLUED = "thereisnoneedtodelayanuploadofthesecurityfix"


def test_pages_without_text_and_with_glued_words_are_noted_with_their_numbers(tmp_path: Path) -> None:
    pages = {
        "good.pdf": pdf("Words apart", "HowToSetupADebianRepository" + " among other words" * 40),
        "many.pdf": pdf("Text", *[""] * 12),
        "mixed.pdf": pdf("Text", "", GLUED, f"See: {GLUED}", ""),
    }
    assert folder(tmp_path, pages).load().notes == (
        "many.pdf: pages 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more without text (blank, or a scan that needs OCR)",
        "mixed.pdf: pages 2, 5 without text (blank, or a scan that needs OCR); pages 3, 4 with words that look joined",
    )


def test_scripts_without_spaces_do_not_look_glued(tmp_path: Path) -> None:
    assert [doubts([letter * 60]) for letter in "\u4e2d\u3042\u0e01\u1780\u1000"] == [""] * 5
    assert doubts(["\u0430" * 60]) == "page 1 with words that look joined"


HIDDEN = ["hidden", "HIDDEN=''", "style='color: red; Display : none !important'", "style=visibility:hidden;"]
SEEN = ["", "hidden=until-found", "aria-hidden=true", "style='display: block'", "style='--display:none'"]


@pytest.mark.parametrize(("attributes", "is_seen"), [*((one, False) for one in HIDDEN), *((one, True) for one in SEEN)])
def test_hidden_elements_are_no_text_and_no_title(tmp_path: Path, attributes: str, is_seen: bool) -> None:
    page = f"<body><h1 {attributes}>First <b {attributes}>bold</b></h1><h1>Second</h1></body>"
    expected = ("First bold", "First bold\n\nSecond") if is_seen else ("Second", "Second")
    assert texts(folder(tmp_path, {"a.html": page}).load()) == {"a.html": expected}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p>a<p hidden>b<p>c <b>d</b><p hidden>e<div>f</div>", "a c d f"),
        ("<ul><li hidden>a<ul><li>x</ul><li>b<ul><li>c</ul><li>d</ul>e", "b c d e"),
        ("<table><tr hidden><td>a<tr><td>b<td hidden>c<td>d<td hidden>e<tr><td>f</table>", "b d f"),
        ("<table><tr hidden><td><table><tr><td>a</table><td>b</tr><tr><td>c</table>", "c"),
        ("<dl><dt hidden>a<dd>b<dd hidden>c<dt>d</dl>", "b d"),
        ("<body style='display:none'>a</body>", "a"),
        ("<p hidden>a<br>b <button>c</button> d</p>e", "e"),
    ],
)
def test_hidden_element_ends_where_its_end_tag_may_be_omitted(tmp_path: Path, page: str, expected: str) -> None:
    ((_, text),) = texts(folder(tmp_path, {"a.html": page}).load()).values()
    assert text.split() == expected.split()


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<legend>Fees</legend><select><option>Full<option>Half</select>", ["Fees", "Full", "Half"]),
        ("<optgroup><option>Full</optgroup><button>Save</button><button>Stop</button>", ["Full", "Save", "Stop"]),
        ("<center>One</center><center>Two</center><menu>Three</menu>", ["One", "Two", "Three"]),
        ("<table><caption>Fees</caption><tbody><tr><td>5</table>", ["Fees", "5"]),
        ("<svg><title>Tip</title><text>Jan</text><text>Feb</text></svg>", ["Jan", "Feb"]),
        ("<p>Hel<b>lo</b>, <a>you</a>!", ["Hello, you!"]),
        (
            "Banner<html><head><title>T</title>\n</head> <body>One</body></html><footer>End</footer>",
            ["Banner", "One", "End"],
        ),
        ("<html><body>One</body></html><html><body>Two</body></html>", ["One", "Two"]),
    ],
)
def test_what_a_page_shows_apart_is_on_lines_of_its_own(tmp_path: Path, page: str, expected: list[str]) -> None:
    ((_, text),) = texts(folder(tmp_path, {"a.html": page}).load()).values()
    assert [line for line in text.splitlines() if line] == expected


@pytest.mark.parametrize(
    "unseen",
    [
        "<video>Your browser plays no videos.</video>",
        "<audio>No sound.</audio>",
        "<canvas>No pictures.</canvas>",
        "<iframe>No frames.</iframe>",
        "<datalist><option>Typed</datalist>",
        "<dialog>Not open.</dialog>",
        "<ruby><rp>(</rp><rt>spoken</rt></ruby>",
    ],
)
def test_text_that_only_stands_in_for_a_missing_feature_is_not_seen(tmp_path: Path, unseen: str) -> None:
    pages = {"a.html": f"<title>T</title><p>One{unseen} two", "b.html": "<dialog open>Open</dialog>"}
    assert texts(folder(tmp_path, pages).load()) == {"a.html": ("T", "One two"), "b.html": ("", "Open")}


@pytest.mark.parametrize("first", [".. contents:: In short", ".. admonition:: Watch out\n\n   Hot."])
def test_title_of_restructured_text_is_that_of_a_section(tmp_path: Path, first: str) -> None:
    page = f"{first}\n\nIntro\n=====\n\nOne.\n\nMore\n====\n\nTwo.\n"
    ((title, _),) = texts(folder(tmp_path, {"a.rst": page}).load()).values()
    assert title == "Intro"


@pytest.mark.parametrize("anchor", ["Some link and code again", "Some [link](http://x) and `code` again"])
def test_anchor_quoted_from_what_is_seen_or_from_what_is_written_resolves(tmp_path: Path, anchor: str) -> None:
    label = {"document": "guide/a.md", "anchor": anchor}
    page = {"guide/a.md": PAGES["markdown.md"][0]}
    golden = folder(tmp_path, page, [{"id": "q", "question": "what", "evidence": [label]}]).load().golden
    assert golden.questions[0].evidence[0].document == "guide/a.md"


def test_what_is_no_page_is_left_out_and_noted(tmp_path: Path) -> None:
    pages = {"a.md": "a", "a.png": b"\x89", "b.png": b"", "LICENSE": "x", ".git/b.md": "b", "drafts/c.md": "c"}
    dataset = folder(tmp_path, pages, exclude=["drafts/*"]).load()
    assert dataset.corpus.ids == ["a.md"]
    assert dataset.notes == ("files of other types skipped: 2 .png, 1 without a suffix",)


@pytest.mark.parametrize("pattern", ["caf\u00e9/*", "cafe\u0301/*"])
def test_excluded_ids_are_compared_in_their_composed_form(tmp_path: Path, pattern: str) -> None:
    pages = {"a.md": "a", "cafe\u0301/b.md": "b"}
    assert folder(tmp_path, pages, exclude=[pattern]).load().corpus.ids == ["a.md"]


def test_an_empty_file_is_a_document_without_text_and_noted(tmp_path: Path) -> None:
    pages = {"a.md": "words", "b.md": "", "c.txt": " \n"}
    assert folder(tmp_path, pages).load().notes == ("files without text: 2, the first b.md",)


def test_links_are_not_followed_wherever_they_lead(tmp_path: Path) -> None:
    reader = folder(tmp_path, {"a.md": "a", "in/b.md": "b"})
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "s.md").write_text("secret")
    root = tmp_path / "pages"
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "in" / "s.md").symlink_to(tmp_path / "secret" / "s.md")
    (root / "in" / "round").symlink_to(root)
    (root / "gone.md").symlink_to("nowhere.md")
    dataset = reader.load()
    assert dataset.corpus.ids == ["a.md", "in/b.md"]
    assert dataset.notes == ("4 links not followed",)


def test_restructured_text_brings_in_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret words")
    path = tmp_path / "secret.txt"
    page = f".. include:: {path}\n\n.. raw:: html\n   :file: {path}\n\n.. csv-table::\n   :file: {path}\n\nEnd.\n"
    (page_text,) = texts(folder(tmp_path, {"a.rst": page}).load()).values()
    assert "secret words" not in page_text[1]
    assert page_text[1].endswith("End.")


def test_pages_that_cannot_be_read_are_reported_at_once_each_with_its_file(tmp_path: Path) -> None:
    pages = {
        "a.md": "good",
        "broken.pdf": b"%PDF-1.4 nonsense",
        "latin.txt": b"caf\xe9",
        "locked.pdf": pdf("Hello", password="x"),
        "scan.pdf": pdf(""),
        "line\nend.md": "x",
        "cafe\u0301.md": "x",
        "caf\u00e9.md": "x",
    }
    faults = faults_of(folder(tmp_path, pages).load, tmp_path)
    assert [fault.split(": ")[0] for fault in faults] == [
        "pages/caf\u00e9.md",
        r"pages/line\x0aend.md",
        "pages/broken.pdf",
        "pages/latin.txt",
        "pages/locked.pdf",
        "pages/scan.pdf",
    ]
    message = "\n".join(faults)
    assert 'document "caf\u00e9.md" occurs twice' in faults[0]
    assert "has the control character U+000A; an id is one line of plain text" in faults[1]
    assert "byte 4 (0xe9) is not valid UTF-8; save the file as UTF-8" in faults[3]
    assert "Data format error" in faults[2]
    assert "Incorrect password error" in faults[4]
    assert "contains no text (a scan needs OCR); repair it, or exclude it" in faults[5]
    assert message.count("repair it, or exclude it with dataset.exclude") == 3


def test_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    reader = folder(tmp_path, {"a.md": "a"})
    with open(os.fsencode(tmp_path / "pages") + b"/caf\xe9.md", "w") as file:  # noqa: PTH123
        file.write("x")
    assert faults_of(reader.load, tmp_path) == [r"pages/caf\xe9.md: its name is not UTF-8; rename the file"]


def test_folder_without_a_page_and_missing_folder_are_refused(tmp_path: Path) -> None:
    (fault,) = faults_of(folder(tmp_path, {"a.png": b""}).load, tmp_path)
    assert fault.startswith("pages: contains no documents; add files with a known suffix: .txt, ")
    missing = Folder(str(tmp_path / "no"), "golden.jsonl", [], "error", None, 0, False)
    assert faults_of(missing.load, tmp_path) == ["no: no such folder; dataset.path must be the folder of the documents"]
