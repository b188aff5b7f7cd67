"""What the commands share: their help, and the runs and sweeps that they name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ragsweep.commands import cli
from ragsweep.commands.command_line import Parser, usual_metrics
from ragsweep.commands.documents import read_documents
from ragsweep.core.errors import ConfigError, InputError, RagsweepError
from ragsweep.core.results import Failure
from ragsweep.records.ledger import Ledger
from ragsweep.stages.store import open_store
from ragsweep.sweep.concluding.recorded_runs import find_run, find_sweep
from support.results import changed, drawn, record, record_sweep, scored

ONE = scored({"ndcg": drawn(0.5)})
PARENT = "feed" * 8


@pytest.mark.parametrize("command", cli._COMMANDS)
def test_every_command_has_help_and_a_line_in_the_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli._command(command, ["--help"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: ragsweep {command}")
    assert f"ragsweep {command}" in cli._USAGE
    assert f"\n  {command} " in cli._USAGE


@pytest.mark.parametrize("command", cli._COMMANDS)
def test_no_command_accepts_an_abbreviated_option(command: str) -> None:
    with pytest.raises(ConfigError):
        cli._command(command, ["--hel"])


def test_a_single_quotation_mark_in_the_overrides_of_mlflow_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "feed")
    with pytest.raises(RagsweepError, match=r"^overrides: no closing quotation; write \\'"):
        cli._command("run", ["top_k=3 name=don't"])


@pytest.mark.parametrize("given", ["{}=3", "+mine.{}=3", "sweeps={}", "--config-dir={}"])
def test_a_name_that_is_too_long_for_a_file_is_one_line(given: str) -> None:
    command = [sys.executable, "-m", "ragsweep", "run", given.format("x" * 300)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert re.fullmatch(r"ragsweep: \S*x{300}(\.yaml)?: the name is too long; shorten it\n", done.stderr)
    assert done.returncode == 2


UNFLUSHED = "from ragsweep.commands import cli; cli._exit_with(lambda _: print(1) or 0, [])"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    [
        ["-m", "ragsweep", "gate", "--candidate", "1" * 32, "--at-least", "ndcg=0"],
        ["-m", "ragsweep", "list"],
        ["-m", "ragsweep", "store", "list"],
        ["-c", UNFLUSHED],
    ],
)
def test_output_on_a_full_disk_is_an_error_of_one_line(command: list[str], unbuffered: str, tmp_path: Path) -> None:
    record(tmp_path, ONE)
    open_store(tmp_path / "stages", print)
    variables = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, *command, "--path", str(tmp_path)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=variables)
    assert re.fullmatch("ragsweep: .*: cannot be written: the disk is full; .*\n", done.stderr)
    assert done.returncode == 2  # not 1, with which a gate fails


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["--version"],
        ["lsit"],
        ["list", "--help"],
        ["golden", "add", "--help"],
        ["run", "--info", "config"],
        ["run", "--cfg", "job"],
        ["run", "--help"],
    ],
)
def test_help_on_a_full_disk_or_a_closed_pipe_is_no_traceback(command: list[str]) -> None:
    command = [sys.executable, "-m", "ragsweep", *command]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert re.fullmatch("ragsweep: .*: cannot be written: the disk is full; .*\n", done.stderr)
    assert done.returncode == 2
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.stderr, done.returncode) == ("", 2 if "lsit" in command else 0)


@pytest.mark.parametrize("command", ["report", "golden", "run"])
def test_a_command_in_place_of_an_override_is_named(command: str) -> None:
    with pytest.raises(RagsweepError, match=f"^{command}: is a command, .*; write ragsweep {command} --help$"):
        cli._command("run", [command, "--help"])


def test_an_override_with_spaces_is_not_split_because_of_an_mlflow_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_RUN_ID", "feed")
    with pytest.raises(ConfigError, match=r"^metrics=x: no such option"):
        cli._command("run", ["metrics=[retrieval, x]"])
    for line in ("metrics=retrieval topk=3", "topk=3 "):
        with pytest.raises(ConfigError, match=r"^topk=3: no key"):
            cli._command("run", [line])


def test_a_run_is_named_by_its_id_or_the_beginning(tmp_path: Path) -> None:
    first, second = record(tmp_path, ONE, changed(ONE, name="other"))
    assert find_run(str(tmp_path), second[:3]).run == second
    assert find_run(str(tmp_path), second).result.name == "other"
    record_sweep(tmp_path, PARENT, ONE)
    none = "has a result"
    for run, said in (("", none), ("zz", none), ("feed", "is a sweep"), (f"{first}0", none)):
        with pytest.raises(InputError, match=said):
            find_run(str(tmp_path), run)


def test_runs_that_begin_alike_are_not_guessed_among(tmp_path: Path) -> None:
    record_sweep(tmp_path, PARENT, ONE, ONE)
    with pytest.raises(InputError, match='2 runs begin with "0"; use a longer prefix'):
        find_run(str(tmp_path), "0")


def test_a_sweep_is_its_configs_in_order_without_those_that_failed(tmp_path: Path) -> None:
    record_sweep(tmp_path, PARENT, ONE, changed(ONE, name="second"), changed(ONE, name="third"))
    ledger = Ledger(tmp_path)
    ledger.write(ledger.sweeps()[0].id, 1, Failure("second", (), {}, "it broke"))
    assert [one.name for one in find_sweep(str(tmp_path), PARENT[:5])] == [ONE.name, "third"]
    (run,) = record(tmp_path, ONE)
    for name, said in ((run, "run of one config"), ("zz", "list the sweeps: ragsweep list"), ("", "no sweep")):
        with pytest.raises(InputError, match=said):
            find_sweep(str(tmp_path), name)
    record_sweep(tmp_path, f"{PARENT[:-1]}0", ONE)
    with pytest.raises(InputError, match="2 sweeps begin with"):
        find_sweep(str(tmp_path), PARENT[:5])


def test_a_folder_without_a_ledger_is_an_error_and_stays_empty(tmp_path: Path) -> None:
    for find in (find_run, find_sweep):
        with pytest.raises(InputError, match=r"in this folder; run a config first, or name the folder of store\.path"):
            find(str(tmp_path), "1")
    assert list(tmp_path.iterdir()) == []


def test_the_usual_metrics_begin_with_the_objective() -> None:
    result = scored({"ndcg": [1.0], "mrr": [1.0]}, config={"objective": "mrr", "headline": ["ndcg", "mrr", "gone"]})
    assert usual_metrics([result, result]) == ["mrr", "ndcg"]


def test_a_wrong_option_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^judge: unrecognized arguments: --x; see --help$"):
        Parser(prog="ragsweep judge").parse_args(["--x"])


def test_what_is_printed_may_be_cut_off() -> None:
    code = "from ragsweep.commands.command_line import ignore_closed_pipe\nwith ignore_closed_pipe(): print('x')"
    for reader in (True, False):
        read, write = os.pipe()
        if not reader:
            os.close(read)
        done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, check=False)
        os.close(write)
        assert (done.returncode, done.stderr) == (0, b"")
        if reader:
            os.close(read)


@pytest.mark.parametrize("form", [(), ("--json",), ("--markdown",)])
def test_a_character_that_the_output_cannot_encode_is_escaped(form: tuple[str, ...], tmp_path: Path) -> None:
    runs = record(tmp_path, ONE, changed(ONE, name="top_k → 5"))
    command = [sys.executable, "-m", "ragsweep", "compare", *runs, "--path", str(tmp_path), *form]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"top_k \\u2192 5" in done.stdout


def test_a_command_without_the_key_for_exclusion_does_not_name_it(tmp_path: Path) -> None:
    (tmp_path / "x.pdf").write_bytes(b"%PDF-1.4")
    with pytest.raises(InputError, match=r"repair it, or move it out of the folder$"):
        read_documents(str(tmp_path), ["*.html"])
