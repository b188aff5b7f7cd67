"""Files in other encodings than UTF-8: read by the byte order mark, by the page or by the config, or refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.commands.documents import read_documents
from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.golden.corpora import read_folder
from ragsweep.golden.text_files import collect_faults, read_lines, read_text
from ragsweep.parts.datasets import Csv, Folder, Jsonl
from ragsweep_golden.exchange.importing import import_file

CAFE = "Le café est à “Zürich”."
JAPANESE = "日本語の文書です。"
PAGE = '<html><head><meta charset="{}"><title>Menu</title></head><body><p>{}</p></body></html>'
OLDER = '<head><META http-equiv="Content-Type" content="text/html; charset={}"></head><body><p>{}</p></body>'
XHTML = '<?xml version="1.0" encoding="{}"?><html><body><p>{}</p></body></html>'
WIDE = {"utf-16": b"", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff", "utf-8": b"\xef\xbb\xbf"}
WIDE |= {"utf-32-le": b"\xff\xfe\x00\x00", "utf-32-be": b"\x00\x00\xfe\xff"}


def folder(place: Path, **files: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
    for name, data in files.items():
        (place / f"{name}.html").write_bytes(data)
    faults = collect_faults(None)
    corpus, notes = read_folder(place, (), faults)
    faults.raise_any()
    return dict(zip(corpus.ids, corpus.texts, strict=True)), (*notes, *faults.notes)


@pytest.mark.parametrize("page", [PAGE, OLDER, XHTML], ids=["charset", "http-equiv", "xml"])
@pytest.mark.parametrize(
    ("declared", "encoding", "text"),
    [
        ("windows-1252", "windows-1252", CAFE),
        ("Windows-1252", "windows-1252", CAFE),
        ("ISO-8859-1", "windows-1252", CAFE),  # as browsers read it
        ("Shift_JIS", "cp932", f"{JAPANESE}①③㈱髙橋"),  # as browsers read it, with the letters of Windows
        ("x-sjis", "cp932", JAPANESE),
        ("gb2312", "gb18030", "朱镕基"),
        ("euc-kr", "cp949", "똠방각하"),
        ("iso-8859-9", "windows-1254", "Türkçe “ğ”"),
        ("iso-2022-jp", "iso-2022-jp", JAPANESE),
        ("koi8-r", "koi8-r", "Привет"),
    ],
)
def test_page_is_read_as_it_declares(tmp_path: Path, page: str, declared: str, encoding: str, text: str) -> None:
    texts, notes = folder(tmp_path, menu=page.format(declared, text).encode(encoding))
    assert texts == {"menu.html": text}
    assert notes == (f"read as {encoding}, the declared encoding: menu.html",)


@pytest.mark.parametrize("declared", ["windows-1252", "utf-16", "nonsense", "utf-8", "rot13"])
def test_a_page_of_utf_8_is_read_as_such_whatever_it_declares(tmp_path: Path, declared: str) -> None:
    assert folder(tmp_path, menu=PAGE.format(declared, CAFE).encode()) == ({"menu.html": CAFE}, ())


@pytest.mark.parametrize("declared", ["", "nonsense", "utf-16", "rot13"])
def test_a_page_that_declares_no_known_encoding_is_refused_with_its_byte(tmp_path: Path, declared: str) -> None:
    page = PAGE.format(declared, CAFE).encode("windows-1252")
    with pytest.raises(
        InputError, match=rf"menu.html: byte {page.index(0xE9) + 1} \(0xe9\) is not valid UTF-8; save .*, or"
    ):
        folder(tmp_path, menu=page)


LINES = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


@given(text=st.text(LINES))
@pytest.mark.parametrize("encoding", WIDE)
def test_byte_order_mark_is_the_encoding(tmp_path_factory: pytest.TempPathFactory, encoding: str, text: str) -> None:
    file = tmp_path_factory.mktemp("marked") / "a.txt"
    file.write_bytes(WIDE[encoding] + f"x{text}".encode(encoding))
    faults = Faults("windows-1252")  # the mark is surer
    assert read_text(file, faults) == f"x{text}"
    expected = [line for line in f"x{text}".split("\n") if line.strip()]
    assert [line for _, line in read_lines(file, faults)] == expected
    assert faults.found == []
    assert len(faults.notes) == (encoding != "utf-8")


CORPUS = '{"id": "d1", "text": "Le café est à Zürich."}\n'
GOLDEN = '{"id": "q1", "question": "Où est le café?", "evidence": [{"document": "d1", "anchor": "café"}]}\n'
ASKED = "id,question,document\nq1,Où est le café?,d1\n"


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16", "latin-1"])
def test_the_encoding_of_the_config_is_that_of_all_files(tmp_path: Path, encoding: str) -> None:
    files = {"corpus.jsonl": CORPUS, "golden.jsonl": GOLDEN, "questions.csv": ASKED}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding=encoding)
    corpus, golden, questions = (str(tmp_path / name) for name in files)
    given = None if encoding == "utf-16" else encoding
    for dataset in (
        Jsonl(corpus, golden, "error", None, 0, False, encoding=given).load(),
        Csv(corpus, questions, None, None, None, "error", None, 0, encoding=given).load(),
    ):
        assert dataset.golden.questions[0].text == "Où est le café?"
        assert dataset.corpus.texts == ["Le café est à Zürich."]
        assert bool(dataset.notes) == (encoding == "utf-16")


def test_a_folder_is_read_in_the_encoding_of_the_config(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "d.txt").write_text("Le café est à Zürich.", encoding="windows-1252")
    (tmp_path / "golden.jsonl").write_text(GOLDEN.replace("d1", "d.txt"), encoding="windows-1252")
    part = Folder(str(pages), str(tmp_path / "golden.jsonl"), [], "error", None, 0, False, encoding="windows-1252")
    assert part.load().corpus.texts == ["Le café est à Zürich."]
    part.encoding = "utf-9"
    with pytest.raises(ConfigError, match=r'dataset.encoding: "utf-9" is not a text encoding; name one .*windows-1252'):
        part.load()


@pytest.mark.parametrize(("encoding", "noted"), [("windows-1252", 1), ("utf-8", 0)])
def test_a_page_of_utf_8_beside_a_table_of_another_encoding_is_noted(tmp_path: Path, encoding: str, noted: int) -> None:
    (tmp_path / "pages").mkdir()
    for name, text in (("d1.txt", "Le café est là."), ("d2.txt", "The tea is here.")):
        (tmp_path / "pages" / name).write_text(text, encoding="utf-8")
    (tmp_path / "questions.csv").write_text(ASKED.replace("d1", "d1.txt"), encoding=encoding)
    part = Csv(str(tmp_path / "pages"), str(tmp_path / "questions.csv"), None, None, None, "error", None, 0, encoding)
    note = f"valid UTF-8, but read as {encoding} because of dataset.encoding: d1.txt"
    assert part.load().notes == (note,) * noted


def test_a_page_read_in_another_encoding_is_noted_where_an_anchor_is_not_found_in_it(tmp_path: Path) -> None:
    (tmp_path / "d1.txt").write_text("Le café est là.", encoding="utf-8")
    label = '{"id": "q1", "question": "Where?", "evidence": [{"document": "d1.txt", "anchor": "café"}]}'
    (tmp_path / "golden.jsonl").write_text(label, encoding="windows-1252")
    table = "id,question,document,anchor\nq1,Où?,d1.txt,café\n"
    (tmp_path / "questions.csv").write_text(table, encoding="windows-1252")
    settings = ("error", None, 0)
    for part in (
        Folder(str(tmp_path), str(tmp_path / "golden.jsonl"), [], *settings, False, encoding="windows-1252"),
        Csv(str(tmp_path), str(tmp_path / "questions.csv"), None, None, None, *settings, encoding="windows-1252"),
    ):
        with pytest.raises(InputError, match=r"valid UTF-8, but read as windows-1252 because of dataset\.encoding: d1"):
            part.load()


@pytest.mark.parametrize("encoding", ["iso2022_jp", "utf-16-le"])
def test_bytes_that_are_valid_utf_8_in_any_text_of_their_encoding_are_not_noted(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.txt").write_text("tea", encoding=encoding)
    (tmp_path / "b.txt").write_text("\u65e5\u672c", encoding="iso2022_jp")
    faults = collect_faults(encoding)
    assert read_text(tmp_path / "a.txt", faults) == "tea"
    if encoding == "iso2022_jp":
        assert read_text(tmp_path / "b.txt", faults) == "\u65e5\u672c"
    assert faults.notes == ()


def test_a_line_that_is_not_decodable_is_refused_with_its_byte_and_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\ncaf\x81\n")
    faults = collect_faults("windows-1252")
    assert [line for _, line in read_lines(tmp_path / "a.txt", faults)] == ["fine"]
    assert faults.found == [
        f"{tmp_path / 'a.txt'}:2: byte 4 (0x81) is not valid WINDOWS-1252; save the file as UTF-8, or correct"
        " dataset.encoding"
    ]


def test_a_page_of_utf_8_that_is_not_decodable_as_the_table_is_not_to_be_saved_as_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(JAPANESE, encoding="utf-8")
    faults = collect_faults("cp932")
    assert read_text(tmp_path / "a.txt", faults) == ""
    way = "the file is valid UTF-8: omit dataset.encoding, and save the other files as UTF-8, too"
    assert faults.found == [f"{tmp_path / 'a.txt'}: byte 11 (0x81) is not valid CP932; {way}"]


def test_a_line_of_utf_8_in_a_file_of_another_encoding_does_not_make_the_file_utf_8(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(f"{JAPANESE}\n".encode("cp932") + f"{JAPANESE}\n".encode())
    faults = collect_faults("cp932")
    assert len([*read_lines(tmp_path / "a.jsonl", faults)]) == 1
    assert "; the line is valid UTF-8: " in faults.found[0]


@pytest.mark.parametrize(
    ("encoding", "data"), [("utf-16-le", "an oak".encode("utf-16-le")[:-1]), ("iso-2022-jp", b"\x1b$B!")]
)
def test_a_damaged_file_that_is_utf_8_by_chance_is_not_called_utf_8(encoding: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    faults = collect_faults(encoding)
    assert read_text(tmp_path / "a.txt", faults) == ""
    assert faults.found[0].endswith("; save the file as UTF-8, or correct dataset.encoding")


def test_a_fault_names_only_the_key_that_sets_the_encoding_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(CORPUS, encoding="windows-1252")
    with pytest.raises(InputError, match=r"corpus\.jsonl:1: byte 29 .* is not valid UTF-8; save the file as UTF-8$"):
        read_documents(str(tmp_path / "corpus.jsonl"))
    with pytest.raises(InputError, match=r"; save .*, or name .* windows-1252, with dataset\.encoding$"):
        Jsonl(str(tmp_path / "corpus.jsonl"), str(tmp_path / "corpus.jsonl"), "error", None, 0, False).load()


def test_many_files_are_one_note_with_the_first_of_them(tmp_path: Path) -> None:
    page = PAGE.format("windows-1252", CAFE).encode("windows-1252")
    _, notes = folder(tmp_path, **{f"page{n:02}": page for n in range(60)})
    (note,) = notes
    assert note.startswith("read as windows-1252, the declared encoding: page00.html, page01.html, ")
    assert note.endswith(", ...")


@pytest.mark.parametrize("first", ["", "id"])  # with ids, the table is in our own layout, which has its own reader
def test_golden_import_reads_a_table_of_the_encoding_that_it_is_given(first: str, tmp_path: Path) -> None:
    text = f"{first},question,reference\nq1,Où est le café ?,à Zürich\n"
    (tmp_path / "set.csv").write_bytes(text.encode("cp1252"))
    with pytest.raises(InputError, match=r"set\.csv:2: .* such as windows-1252, with encoding$"):
        import_file(tmp_path / "set.csv", "auto", None)
    (entry,) = import_file(tmp_path / "set.csv", "auto", None, encoding="windows-1252").entries
    assert (entry["question"], entry["reference"]) == ("Où est le café ?", "à Zürich")
