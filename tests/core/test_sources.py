"""Config files are read as Hydra reads them, by whichever parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.plugins import Plugins
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from hydra_plugins.ragsweep_grid import search_path
from hydra_plugins.ragsweep_grid._sources import QuickFileSource, quicken
from ragsweep.sweep.composition import config_folder

ROOT = config_folder().parent


def both(folder: Path, name: str) -> list[Any]:
    """What each of the two sources reads, or the kind and text of its error."""
    found: list[Any] = []
    for source in (FileConfigSource("mine", f"file://{folder}"), QuickFileSource("mine", f"file://{folder}")):
        try:
            one = source.load_config(name)
        except Exception as fault:
            found.append((type(fault).__name__, str(fault)))
        else:
            plain = OmegaConf.to_container(one.config)
            found.append((repr(plain), list(one.config), one.path, one.provider, one.header))
    return found


@pytest.mark.parametrize(
    "path", sorted([*(ROOT / "conf").rglob("*.yaml"), *(ROOT / "sweeps").rglob("*.yaml")]), ids=str
)
def test_shipped_files_are_read_as_hydra_reads_them(path: Path) -> None:
    hydras, ours = both(path.parent, path.name)
    assert ours == hydras


@pytest.mark.parametrize(
    "written",
    [
        "", "# only a comment\n", "a: 1\na: 2\n", "- 1\n- 2\n", "text", "a: [", "a: \t1", "a: !x 1", "\ufeffa: 1\n",
        "a: *b", "a: b\x85c: d", "a: [1,\n\t2]", "a: 'b\u2028c'",
        "# @package _global_\na: 1e3\nb: 1_000.5\nc: 2020-01-01\nd: .5\ne: 0x1F\nf: 1:30\ng: yes\nh: .inf\ni: ~\n",
        "a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n", "defaults:\n  - _self_\n  - a: b\nc: ${d}\n", "'1': a\n1: b\n",
    ],
)  # fmt: skip
def test_odd_files_are_read_or_refused_as_hydra_does(written: str, tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text(written, encoding="utf-8")
    hydras, ours = both(tmp_path, "odd")
    assert ours == hydras


def test_a_file_that_is_no_text_and_one_that_is_not_there_are_refused_as_hydra_does(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_bytes(b"a: \xff\xfe")
    for name in ("odd", "nowhere"):
        hydras, ours = both(tmp_path, name)
        assert ours == hydras
        assert len(ours) == 2


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
)


@given(st.dictionaries(WORDS, VALUES, max_size=4), st.booleans())
def test_what_is_written_is_read_as_hydra_reads_it(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any], flow: bool
) -> None:
    folder = tmp_path_factory.mktemp("written")
    written = yaml.safe_dump(values, allow_unicode=True, default_flow_style=flow)
    (folder / "any.yaml").write_text(written.replace("${", ""), encoding="utf-8")
    hydras, ours = both(folder, "any")
    assert ours == hydras


def test_files_of_a_search_path_are_read_quickly_from_where_they_are() -> None:
    Plugins.instance()
    repository = ConfigRepository(search_path(config_folder(), None))
    before = [(one.scheme(), one.provider, one.path) for one in repository.get_sources()]
    quicken(repository)
    assert [(one.scheme(), one.provider, one.path) for one in repository.get_sources()] == before
    assert all(isinstance(one, QuickFileSource) for one in repository.get_sources() if one.scheme() == "file")
