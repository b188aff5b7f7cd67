"""No name out of data or config leaves its folder, meets another, or is lost: ids come back whole."""

import gzip
import json
import subprocess
import sys
import unicodedata
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import Faults
from ragsweep.core.results import Result
from ragsweep.core.types import Chunks, Corpus, Spans
from ragsweep.evaluation.question_table import ChunkNames, chunk_text
from ragsweep.evaluation.trec_texts import write_run
from ragsweep.golden.reading import Row
from ragsweep.parts.tracking import files
from ragsweep.records.ledger import Ledger
from support import nightly
from support.commands import user_environment, write_dataset
from support.inputs.trec_files import read_run

pytestmark = pytest.mark.slow

NAMES = [
    "..", ".", "../x", "../../x", "a/../../x", "/etc/passwd", "/tmp/x", "//host/share", "~", "~/x", "~root/x",
    "%2e%2e", "%2e%2e%2fx", "%252e%252e%252fx", "..%2fx", "..%c0%afx", "%", "100%", "%%20", "a%20b", "a b", "a%2520b",
    "..\\x", "a\\b", "C:\\x", "C:x", "\\\\host\\share", "file:///etc/passwd", "http://x/y", "a?b=c", "a#b", "a&b",
    "x\0y", "\0", "a\nb", "a\r\nb", "a\tb", "a\x1b[31mb", "a\x7fb", "a\u2028b", "a\xa0b", "x" * 5_000,
    "\U0001f327" * 200,
    "Case", "case", "CASE", "caf\u00e9", "cafe\u0301", "\u212b", "\u00c5",
    "CON", "con", "NUL", "NUL.txt", "aux", "COM1", "LPT1.trec", "dot.", "dots...", "end ", " begin", "-rf", "$(id)",
    "`id`",
    "a:0-5", "a", "a/b", "a//b", "a/./b", "*", "?", "[a]", "|x", "<x>", '"x"', "'x'", ";x",
]  # fmt: skip
"""Strange names: up, absolute, encoded once and twice, of Windows, with control characters, long, twins, reserved."""

PLAIN = sorted({unicodedata.normalize("NFC", name) for name in NAMES if name.isprintable() and name.strip()})
"""Those that a reader takes for ids, twins once."""


def test_id_that_is_not_one_line_of_text_is_refused() -> None:
    for name in NAMES:
        faults = Faults()
        Row("f:1", {"id": name}, faults).identifier("id")
        assert bool(faults.found) == (not name.strip() or bool({*"\0\n\r\t\x1b\x7f\u2028"} & {*name})), repr(name)


# --- rankings ----------------------------------------------------------------------------------------------------


def decoded(path: Path) -> dict[str, list[str]]:
    return {unquote(question): [unquote(name) for name, _ in row] for question, row in read_run(path).items()}


def written(folder: Path, names: list[str]) -> Path:
    path = folder / "run.trec"
    scores = np.arange(len(names), 0, -1, dtype=np.float32)
    path.write_text(write_run(names, [names] * len(names), np.tile(scores, len(names))), "utf-8", newline="")
    return path


def test_ids_in_a_run_come_back_whole(tmp_path: Path) -> None:
    assert decoded(written(tmp_path, NAMES)) == dict.fromkeys(NAMES, NAMES)


LETTERS = st.sampled_from("% 205aF\t\n\u2028\0/:-.")


@given(st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=4, unique=True))
def test_whatever_ids_hold_they_come_back_whole(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> None:
    assert decoded(written(tmp_path_factory.getbasetemp(), names)) == dict.fromkeys(names, names)


LIKE_CHUNKS = st.lists(st.sampled_from([":0-5", ":0-6", ":5-6"]), max_size=2).map(lambda spans: "a" + "".join(spans))


@given(st.lists(LIKE_CHUNKS, min_size=1, max_size=6, unique=True))
def test_no_two_chunks_share_a_name_and_each_names_its_text(ids: list[str]) -> None:
    texts = [f"{n}abcde" for n in range(len(ids))]
    spans = [(n, start, end) for n in range(len(ids)) for start, end in ((0, 5), (0, 6), (5, 6))]
    cut = Chunks(Corpus(ids, [""] * len(ids), texts), Spans(*map(np.array, zip(*spans, strict=True))))
    (names,) = ChunkNames(cut).of(np.arange(len(spans), dtype=np.int32)[None, :])
    assert len(set(names)) == len(spans)
    assert [chunk_text(cut.corpus, name) for name in names] == list(map(cut.text, range(len(spans))))


# --- artifacts ---------------------------------------------------------------------------------------------------


def test_artifact_lies_in_its_folder_or_nowhere(tmp_path: Path) -> None:
    for number, name in enumerate(NAMES):
        folder = tmp_path / str(number) / "a" / "b" / "artifacts"
        folder.mkdir(parents=True)
        outside = set(tmp_path.rglob("*"))
        try:
            files.write(str(folder), {name: b"data"}, "")
        except (ValueError, OSError):
            pass
        else:
            assert (folder / name).read_bytes() == b"data"
        assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(folder)} == outside - {folder}, name


# --- all of it: a sweep over strange names ------------------------------------------------------------------------

WATCHED = """
import json, os, sys
allowed, outside = os.path.realpath(os.getcwd()), []
writes = {"os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.chmod", "os.truncate",
          "sqlite3.connect", "shutil.rmtree", "shutil.copyfile", "shutil.move"}

def watch(event, given):
    if event == "open":
        path, mode, flags = given
        changes = set(mode or "") & set("wax+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        paths = [path] if changes else []
    else:
        paths = given[:2] if event in writes else []
    for path in paths:
        path = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        place = os.path.realpath(path.removeprefix("file:").partition("?")[0])
        if path and path != ":memory:" and not (place + os.sep).startswith((allowed + os.sep, "/dev/")):
            outside.append([event, path])

sys.addaudithook(watch)
from ragsweep.commands.cli import main
status = 0
try:
    main()
except SystemExit as end:
    status = end.code or 0
print(json.dumps([status, outside]))
"""


def write_strange_dataset(folder: Path) -> list[str]:
    documents = [{"id": name, "text": "word"} for name in PLAIN]
    questions = [
        {"id": name, "question": f"{strange} word", "category": strange if n < 30 else "", "labels": {strange: "x"},
         "evidence": [{"document": name}]}
        for n, (name, strange) in enumerate(zip(PLAIN, NAMES, strict=False))
    ]  # fmt: skip
    return write_dataset(folder, questions, documents)


@pytest.mark.parametrize("tracking", ["none", nightly("mlflow")])
def test_sweep_over_strange_names_writes_nowhere_else_and_loses_none(tracking: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / "tmp").mkdir(parents=True)
    environment = user_environment(HOME=str(folder), TMPDIR=str(folder / "tmp"), PYTHONDONTWRITEBYTECODE="1")
    experiment = ["tracking.experiment=../../evil"] if tracking == "mlflow" else []
    command = ["-m", *write_strange_dataset(folder), "chunker=none", f"tracking={tracking}", *experiment]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "run", *command], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    status, outside = json.loads(done.stdout.splitlines()[-1])
    assert (status, outside) == (0, []), done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"work"}
    named = sorted("a:0-5:0-4" if name == "a:0-5" else name for name in PLAIN)  # not to be taken for a chunk of "a"
    ledger = Ledger(folder / ".ragsweep")
    (record,) = ledger.records(ledger.sweeps()[0].id)
    assert isinstance(record.outcome, Result)
    assert record.outcome.questions["question_id"] == PLAIN
    assert {name for context in record.outcome.questions["context"] for name in context} <= {*named}
    if tracking == "mlflow":
        (ranking,) = (path for path in folder.glob("mlruns/**/rankings/*.trec.gz") if ".evidence." not in path.name)
        plain = folder / "ranking.trec"
        plain.write_bytes(gzip.decompress(ranking.read_bytes()))
        found = decoded(plain)
        assert sorted(found) == PLAIN
        assert all(sorted(names) == named for names in found.values())
