"""What is written is read back, from any process."""

import math
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import InputError, TrackingError
from ragsweep.core.locks import Holder
from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import DatasetFacts, Failure, Result, Run, Summaries, Summary
from ragsweep.records import record_format
from ragsweep.records.claims import CONFIG, ClaimKey
from ragsweep.records.ledger import Ledger, Sweep
from support import without_root
from support.results import changed
from support.servers import forked


def result(name: str = "top_k=3") -> Result:
    summary = Summary("mrr", 0.5, 0.4, math.nan, 4, 3, 1, 0, reasons={"no evidence": 1})
    facts = DatasetFacts("demo", "c", "g", 5, 4, 3, 1, {"not in split": 2}, ("note",))
    run = Run(
        "s" * 64, name, (name,), {"top_k": 3}, {"top_k": "3"}, facts, {"chunk": {"executed": 1.0}},
        warnings=("careful",), started=1.0, ended=2.0,
    )  # fmt: skip
    questions = QuestionResults({"question_id": ["q"], "mrr": [math.nan]})
    return Result(run, questions, Summaries({"mrr": summary}, {"category": {"a": {"mrr": summary}}}))


def opened(ledger: Ledger, *names: str, key: str = "key") -> Sweep:
    return ledger.open_sweep(key, Sweep("", "s", "run", tuple((name,) for name in names), names, "place"))


def test_record_is_read_back_as_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    sweep = opened(ledger, "top_k=3", "top_k=5")
    failure = Failure("a", ("a",), {"x": "1"}, "no luck", "trace", 1.0, 2.0)
    ledger.mark_tracked(ledger.write(sweep.id, 0, result()), "child")
    ledger.write(sweep.id, 1, failure)
    record, failed = Ledger(tmp_path).records(sweep.id)
    assert (record.job, record.run) == (0, "child")
    assert isinstance(record.outcome, Result)
    assert math.isnan(record.outcome.summaries.metrics["mrr"].high)
    assert math.isnan(record.outcome.questions["mrr"][0])
    comparable: dict[str, Any] = {"metrics": {}, "groups": {}, "questions": QuestionResults({})}
    assert changed(record.outcome, **comparable) == changed(result(), **comparable)
    assert failed.outcome == failure
    assert Ledger(tmp_path).sweep(sweep.id) == sweep


def test_job_that_runs_again_replaces_its_record_and_a_single_config_does_not(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    sweep = opened(ledger, "a")
    for identifier in (sweep.id, None):
        ledger.write(identifier, 0, Failure("a", ("a",), {}, "no luck"))
        ledger.write(identifier, 0, result("b"))
    assert [record.outcome.name for record in ledger.records(sweep.id)] == ["b"]
    assert [record.outcome.name for record in ledger.singles()] == ["a", "b"]


def test_write_that_is_refused_is_undone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    sweep = opened(ledger, "a")
    with pytest.raises(InputError, match="config #1 was taken over by another process"):
        ledger.write(sweep.id, 0, result("a"), fenced=True)
    assert ledger.records(sweep.id) == []
    ledger.write(sweep.id, 0, result("a"))
    assert len(ledger.records(sweep.id)) == 1


def test_many_processes_start_at_once_on_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from ragsweep.records.ledger import Ledger; from ragsweep.core.results import Failure\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "for n in range(10): ledger.write('sweep', int(sys.argv[2]) * 10 + n, Failure('a', (), {}, 'x'))"
    )
    started = [forked.Popen([sys.executable, "-c", code, str(tmp_path / "new"), str(n)]) for n in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert [record.job for record in Ledger(tmp_path / "new").records("sweep")] == list(range(40))


def test_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackingError, match=r"cannot write results to .*; set store\.path"):
        Ledger(tmp_path / "file")


def test_sweep_is_opened_anew_as_a_further_round_of_its_key(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    first, second = opened(ledger, "a"), opened(ledger, "a")
    assert first.id != second.id
    assert ledger.latest("key") == second
    assert ledger.latest("other") is None
    assert [one.id for one in ledger.sweeps()] == [first.id, second.id]


def test_job_is_claimed_once_among_processes_until_its_holder_dies(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    sweep = opened(ledger, "a", "b")
    code = (
        "import sys, time; from pathlib import Path; from ragsweep.records.ledger import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "print(ledger.claims.claim_job(sys.argv[2], 0), flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path), sweep.id]
    with forked.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "None\n"
        taken = ledger.claims.claim_job(sweep.id, 0)
        assert isinstance(taken, Holder)
        assert taken.process == other.pid
        assert ledger.claims.claim_job(sweep.id, 1) is None
        other.kill()
    assert [(claim.number, claim.lives) for claim in ledger.claims.jobs(sweep.id)] == [(0, False), (1, True)]
    assert ledger.claims.claim_job(sweep.id, 0) is None
    assert [(claim.number, claim.attempts) for claim in ledger.claims.jobs(sweep.id)] == [(0, 2), (1, 1)]


def test_job_with_a_record_has_no_claim_and_cannot_be_claimed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    sweep = opened(ledger, "a", "b")
    ledger.claims.claim_job(sweep.id, 0)
    ledger.write(sweep.id, 0, result("a"))
    assert ledger.claims.jobs(sweep.id) == []
    assert ledger.claims.claim_job(sweep.id, 0) == "finished"
    ledger.claims.claim_job(sweep.id, 1)
    ledger.claims.release(ClaimKey(CONFIG, sweep.id, 1))
    assert ledger.claims.jobs(sweep.id) == []


def test_failed_job_that_is_run_again_keeps_its_run(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    sweep = opened(ledger, "a")
    ledger.mark_tracked(ledger.write(sweep.id, 0, Failure("a", ("a",), {}, "no luck"), "place"), "run")
    assert ledger.jobs(sweep.id, "failed") == {0}
    ledger.retry(sweep.id)
    assert ledger.records(sweep.id) == []
    assert ledger.of_run("run") == []
    assert ledger.jobs(sweep.id, "failed", "finished") == set()
    again = ledger.write(sweep.id, 0, result("a"), "place")
    assert ledger.run(again) == "run"
    (waiting,) = ledger.records(sweep.id)
    assert (waiting.id, waiting.run, waiting.tracked, waiting.tracker) == (again, "run", False, "place")


def test_sweep_whose_process_died_is_abandoned(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ragsweep.records.ledger import Ledger, Sweep\n"
        "print(Ledger(Path(sys.argv[1])).open_sweep('key', Sweep('', 's', '', ((),), ('a',))).id)"
    )
    dead = forked.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    ledger = Ledger(tmp_path)
    mine = opened(ledger, "a", key="mine")
    assert [one.id for one in ledger.abandoned()] == [dead.stdout.strip()]
    ledger.set_status(dead.stdout.strip(), "KILLED")
    ledger.set_status(mine.id, "FINISHED")
    assert ledger.abandoned() == []


def test_ledger_that_another_process_writes_is_read(tmp_path: Path) -> None:
    sweep = opened(Ledger(tmp_path), "a")
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert Ledger(tmp_path).sweeps() == [sweep]


def test_writer_that_waits_says_for_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ragsweep.records.ledger_file.NOTICE", 0.2)
    ledger = Ledger(tmp_path)
    writer = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    end = threading.Timer(1.0, writer.rollback)
    end.start()
    opened(ledger, "a")
    end.join()
    writer.close()
    assert "waiting for another process that is writing to" in capfd.readouterr().err


def test_ledger_that_must_not_be_written_is_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    sweep = opened(ledger, "a")
    ledger.write(sweep.id, 0, result("a"))
    code = (
        "import sys; from pathlib import Path; from ragsweep.records.ledger import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1])); (sweep,) = ledger.sweeps()\n"
        "print(ledger.is_writable, [record.outcome.name for record in ledger.records(sweep.id)])\n"
        "ledger.check_writable()"
    )
    command = without_root([sys.executable, "-c", code, str(tmp_path)])
    for modified in ("in the log", "in the file"):
        with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
            if modified == "in the file":
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            for path in (*tmp_path.iterdir(), tmp_path):
                path.chmod(0o500 if path.is_dir() else 0o400)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            tmp_path.chmod(0o700)
        assert done.stdout == "False ['a']\n", done.stderr
        assert "cannot write to" in done.stderr
        assert "ledger.db: it is read-only; set store.path (--path, RAGSWEEP_STORE) to another folder\n" in done.stderr
        for path in tmp_path.iterdir():
            path.chmod(0o600)


def test_ledger_of_another_version_is_refused(tmp_path: Path) -> None:
    with Ledger(tmp_path)._file.transaction() as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(TrackingError, match=r"another version of ragsweep \(format 99.*set store\.path"):
        Ledger(tmp_path)


def test_record_of_another_version_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as later:
        later.setattr(record_format, "FORMAT", "ragsweep.record/9")
        Ledger(tmp_path).write(None, 0, result())
    known = r"format ragsweep\.record/9; this version writes format ragsweep\.record/3"
    with pytest.raises(
        InputError, match=rf"ledger\.db: a record was written by another version of ragsweep \({known}\)"
    ):
        Ledger(tmp_path).singles()


def test_single_config_is_shown_by_its_run_as_in_the_list(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    first, second = (ledger.write(None, 0, result()) for _ in range(2))
    ledger.mark_tracked(second, "feedfeed" * 4)
    assert [ledger.names.shown(f"record {number}") for number in (first, second)] == ["record 1", "feedfeed"]


def test_error_of_a_full_disk_names_the_file_and_the_way_on(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    code = (
        "import sqlite3, sys; from pathlib import Path; from ragsweep.records.ledger import Ledger, Sweep\n"
        "real = sqlite3.connect\n"
        "def full(*a, **k):\n"
        "    c = real(*a, **k); c.execute('PRAGMA max_page_count = 1'); return c\n"
        "sqlite3.connect = full\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "ledger.open_sweep('key', Sweep('', 's' * 500_000, '', ((),), ('a',)))"
    )
    done = forked.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "TrackingError: cannot write results to" in done.stderr
    assert "database or disk is full" in done.stderr
    assert "MB free); fix this problem and rerun the command to resume" in done.stderr
    assert ledger.sweeps() == []
