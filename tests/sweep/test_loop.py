"""A job of our own loop leaves and sees what it would under Hydra's own launcher."""

import logging
import os
import re
from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Failure
from ragsweep.core.secrets import Secrets
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running.hydra_launch import call_hydra
from ragsweep.sweep.running.jobs import attempt
from ragsweep.sweep.running.loop import JobLoop
from ragsweep.sweep.running.session import Session
from support import nightly
from support.commands import write_dataset, write_option

SEEN: list[dict[str, Any]] = []


def timeless(text: str) -> str:
    return re.sub(r"\d+-\d+-\d+", "TIME", text)


def look(config: DictConfig | None = None) -> float:
    """Note what a job sees beside its config."""
    hydra: Any = HydraConfig.get()
    folder = Path(hydra.runtime.output_dir)
    logging.getLogger("a.library").warning("said in %s", folder.name)
    number = OmegaConf.to_container(hydra.job, resolve=False).get("num")  # type: ignore[union-attr]
    SEEN.append(
        {"number": number, "folder": timeless(folder.name), "inside": Path.cwd() == folder,
         "env": os.environ.get("MINE_NUM_THREADS"), "typed": list(hydra.overrides.task), "name": hydra.job.name,
         "dirname": hydra.job.override_dirname}
    )  # fmt: skip
    return 0.5


def by_us(typed: Sequence[str], multirun: bool, folder: str | None) -> None:
    command = read_command(typed, multirun, folder)
    jobs = compose_jobs(command)
    loop = JobLoop(command, jobs[0], Secrets())
    if command.multirun:
        loop.write_multirun()
    for job in jobs:
        assert loop.run(look, job).return_value == 0.5


def test_folder_that_cannot_be_resolved_is_named_with_its_key() -> None:
    command = read_command(["hydra.run.dir=${missing}"], False)
    fault = r"^hydra\.run\.dir: Interpolation key 'missing' not found; correct the interpolation$"
    with pytest.raises(ConfigError, match=fault):
        JobLoop(command, compose_jobs(command)[0], Secrets())


@pytest.mark.parametrize(
    ("name", "message"),
    [("${nope}", "interpolates nope, which is not a key"), ("???", "Missing mandatory value"),
     ("${oc.env:NO_SUCH_NAME}", "the environment variable NO_SUCH_NAME is not set")],
)  # fmt: skip
def test_folder_of_a_job_that_cannot_be_resolved_is_named_before_the_sweep(name: str, message: str) -> None:
    command = ["top_k=1,2", f"hydra.sweep.subdir='{name}'"]
    with pytest.raises(ConfigError, match=rf"^hydra\.sweep\.subdir: {message}"):
        read_command(command, True)
    read_command(["top_k=1,2", "hydra.sweep.subdir='${top_k}_${hydra.job.override_dirname}_${hydra:job.num}'"], True)


def written(folder: Path) -> list[Any]:
    """Read what was written of the jobs, and take it away."""
    found = []
    for path in sorted(folder.rglob("*"), key=lambda path: (path.name, path)):
        if path.suffix == ".log":
            found.append(timeless(path.read_text().split("]", 1)[1]))
        elif path.parent.name in (".hydra", "kept"):
            plain = yaml.safe_load(path.read_text())
            if path.name == "hydra.yaml":
                plain["hydra"]["runtime"].pop("output_dir")  # named after the second
                plain["hydra"]["runtime"].pop("config_sources")
                plain["hydra"].pop("mode")  # set by the kind of the command
                lines = plain["hydra"]["overrides"]["hydra"]
                lines[:] = [line for line in lines if not line.startswith("hydra.mode=")]
            found.append((path.name, plain))
        if path.is_file() and path.parent.name != "retriever":
            path.unlink()
    return found


@pytest.mark.parametrize(
    "typed",
    [
        ["top_k=3", "retriever=bm25", "+note=mine", "~headline"],
        nightly(["hydra.job.chdir=true", "hydra.output_subdir=null"]),
        nightly(["--config-dir", "more", "retriever=own"]),
        ["-m", "top_k=3,5", "retriever=bm25", "hydra.job.chdir=true", "+hydra.job.env_set.MINE_NUM_THREADS=7"],
        *(
            pytest.param(typed, marks=pytest.mark.nightly)
            for typed in (
                ["hydra.run.dir='out/${hydra:job.name}/${hydra.job.override_dirname}'", "top_k=3",
                 "hydra.job.name=mine"],
                ["-m", "sweeps=top_k", "hydra.sweep.dir=elsewhere", "hydra.sweep.subdir='${top_k}_${hydra.job.num}'"],
                ["-m", "top_k=3,5", "hydra.job.config.override_dirname.exclude_keys=[depth]", "depth=9",
                 "hydra.sweep.subdir='${hydra.job.override_dirname}'", "hydra.output_subdir=kept"],
            )
        ),
    ],
    ids=" ".join,
)  # fmt: skip
def test_jobs_are_those_of_hydra(typed: list[str], cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "")
    write_option(cwd / "more", "retriever/own", "_target_: ragsweep.parts.retrievers.Bm25\nk1: 0.9\n")
    SEEN.clear()
    call_hydra([*typed, "hydra/sweeper=basic"] if "-m" in typed else typed, look)
    expected, files = list(SEEN), written(cwd)
    assert expected
    SEEN.clear()
    overrides = [word for word in typed if word not in ("-m", "--config-dir", "more")]
    multirun = "-m" in typed
    by_us([*overrides, *(["hydra/sweeper=basic"] if multirun else [])], multirun, "more" if "more" in typed else None)
    assert expected == SEEN
    assert written(cwd) == files


def test_all_jobs_of_a_sweep_read_one_clock(cwd: Path) -> None:
    by_us(["retriever=bm25,vector", "hydra.sweep.dir='out/${now:%f}'"], True, None)
    (out,) = (cwd / "out").iterdir()
    assert {path.name for path in out.iterdir()} == {"0", "1", "multirun.yaml"}


def test_secrets_and_the_password_of_a_url_are_masked_in_the_files_of_a_job(cwd: Path) -> None:
    text = "# @package _global_\nplace: http://me:hunter-2@host/a?sig=hunter-3\nagain: hunter-3\n"
    write_option(cwd / "more", "experiment/own", text)
    command = read_command(["+experiment=own", "+note=sesame-and-more"], False, "more")
    command.secrets.add("sesame-and-more", named=True)
    (job,) = compose_jobs(command)
    JobLoop(command, job, command.secrets).run(look, job)
    files = [path.read_text() for path in cwd.rglob("**/.hydra/*.yaml")]
    assert len(files) == 3
    assert not any(word in text for text in files for word in ("hunter", "sesame"))
    assert "again: '***'" in next(cwd.rglob("**/.hydra/config.yaml")).read_text()


@pytest.mark.parametrize(("key", "variable"), [("tracking.experiment", "MY_API_KEY"), ("name", "ODDLY_NAMED")])
def test_secret_in_a_name_is_refused(key: str, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "hunter-2-and-more")
    with pytest.raises(ConfigError, match=f"^{key}: ") as fault:
        compose_jobs(read_command([f"{key}='x-${{oc.env:{variable}}}'"], False))
    assert "hunter" not in str(fault.value)


class Immutable(Exception):
    """Like an exception of a frozen class of attrs, which lets only Python's own attributes be set."""

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super().__setattr__(name, value)


def test_failure_with_an_immutable_exception_is_kept_as_this_exception() -> None:
    def raising(job: Job) -> None:
        raise Immutable("no luck today")

    services = SimpleNamespace(evaluator=SimpleNamespace(executor=None), experiment=raising)
    job: Any = SimpleNamespace(config=SimpleNamespace(values={"timeout": None}), name="x", overrides=(), parameters={})
    failures: list[Failure] = []
    with pytest.raises(Immutable):
        attempt(SimpleNamespace(session=services), job, failures.append)  # type: ignore[arg-type]
    assert [one.error.partition(" (")[0] for one in failures] == ["Immutable: no luck today"]


@pytest.mark.parametrize("typed", [["hydra.job.chdir=true"], []])
def test_models_are_loaded_in_the_commands_folder(typed: list[str], cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, seen = read_command([*write_dataset(cwd), *typed], False), list[Path]()
    (job,) = compose_jobs(command)

    def evaluate(*_: object) -> None:
        seen.append(Path.cwd())
        raise ValueError("enough")

    monkeypatch.setattr(Session, "evaluate", evaluate)
    context: Any = SimpleNamespace(session=Session(), terminal=Terminal.current(plain=True), sweep=None)

    def work() -> None:
        if not typed:
            os.chdir("/")  # the folder of a worker of a cluster
        attempt(context, job, lambda failure: None)

    JobLoop(command, job, Secrets()).run(work, job)
    assert seen == [cwd]


def test_a_fault_of_a_job_is_kept_and_its_folder_left(cwd: Path) -> None:
    command = read_command(["hydra.job.chdir=true"], False)
    (job,) = compose_jobs(command)

    def fail() -> float:
        raise ValueError("unlucky")

    came = JobLoop(command, job, Secrets()).run(fail, job)
    with pytest.raises(ValueError, match="unlucky"):
        _ = came.return_value
    assert Path.cwd() == cwd


def test_a_folder_that_cannot_be_created_is_named_with_its_key(cwd: Path) -> None:
    Path("out").touch()
    command = read_command(["hydra.run.dir=out/run"], False)
    (job,) = compose_jobs(command)
    with pytest.raises(ConfigError, match=r"hydra\.run\.dir: cannot create the folder out/run: .*; set another folder"):
        _ = JobLoop(command, job, Secrets()).run(lambda: 0, job).return_value
