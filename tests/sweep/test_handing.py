"""What a job sees is what it would see of a program that Hydra starts, to the last key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from ragsweep.sweep.composition import composed_once, read_command
from ragsweep.sweep.handing import ask_hydra, hand_over

SEEN: list[dict[str, Any]] = []


def look(config: DictConfig) -> float:
    from hydra.core.hydra_config import HydraConfig

    hydra = alike(OmegaConf.to_container(HydraConfig.instance().cfg, resolve=False))
    SEEN.append({"job": OmegaConf.to_container(config, resolve=False), "changed": Path.cwd() != START, **hydra})
    return 0.5


START = Path.cwd()


def alike(hydra: Any) -> Any:
    """Take out what differs between any two calls."""
    hydra["hydra"]["runtime"].pop("output_dir")  # which is named after the second
    lines = hydra["hydra"]["overrides"]["hydra"]  # Hydra adds the mode where no file says it, we where nobody typed it
    lines[:] = [line for line in lines if not line.startswith("hydra.mode=")]
    return hydra


def taken(folder: Path) -> list[Any]:
    """Read what was written down of the jobs, and take it away."""
    found = []
    for path in sorted(folder.rglob("*"), key=lambda path: (path.name, path)):
        if path.parent.name == ".hydra":
            plain = yaml.safe_load(path.read_text())
            found.append((path.name, alike(plain) if path.name == "hydra.yaml" else plain))
            path.unlink()
    return found


@pytest.mark.parametrize(
    "typed",
    [
        [],
        ["top_k=3", "retriever=bm25", "+note=mine", "~reranker"],
        ["hydra.job.name=mine", "hydra.job.chdir=false", "hydra.mode=RUN", "hydra.verbose=false"],
        ["hydra.job.chdir=true", "hydra.output_subdir=null"],
        ["hydra.run.dir='out/${hydra:job.name}/${hydra.job.override_dirname}'", "top_k=3"],
        ["--config-dir", "more", "retriever=own"],
        ["hydra.searchpath=[file://more]", "retriever=own"],
        ["-m", "top_k=3,5", "retriever=bm25"],
        ["-m", "top_k=3,5", "hydra/launcher=basic", "hydra.sweep.dir=elsewhere"],
        ["-m", "sweeps=top_k", "hydra/sweeper=basic"],
        ["-m", "--config-dir", "more", "retriever=own,bm25"],
        ["top_k=3,5", "hydra.mode=MULTIRUN"],
    ],
    ids=" ".join,
)
def test_jobs_see_what_they_see_when_hydra_starts_them(
    typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(globals(), "START", tmp_path)
    (tmp_path / "more" / "retriever").mkdir(parents=True)
    (tmp_path / "more" / "retriever" / "own.yaml").write_text("_target_: ragsweep.parts.retrievers.Bm25\nk1: 0.9\n")
    SEEN.clear()
    ask_hydra(typed, look)
    expected, written = list(SEEN), taken(tmp_path)
    assert len(expected) == (3 if "sweeps=top_k" in typed else 2 if any("," in word for word in typed) else 1)
    SEEN.clear()
    folder = "more" if "--config-dir" in typed else None
    overrides = [word for word in typed if word not in ("-m", "--config-dir", "more")]
    with composed_once():
        hand_over(read_command(overrides, "-m" in typed, folder), task=look)
    assert expected == SEEN
    assert taken(tmp_path) == written
    assert written or "hydra.output_subdir=null" in typed
