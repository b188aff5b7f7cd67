"""A bundle loads as it was shipped, or is refused in one sentence: other parts, another value, any damage of a file."""

import importlib
import json
import random
import re
import shutil
from pathlib import Path

import pytest

from ragsweep.core.errors import InputError, RagsweepError
from ragsweep_serving.bundle import CORPUS, MANIFEST, STAGES, read_manifest
from ragsweep_serving.pipeline import ServedPipeline
from ragsweep_serving.reference import REFERENCE, WORDS, Reference
from support.inputs.mutants import mutated, places
from test_served_pipeline import shipped

PARTS = {
    "chunker": ("chunker=fixed_size", "ragsweep.parts.chunkers", "FixedSize"),
    "retriever": ("retriever=bm25", "ragsweep.parts.retrievers", "Bm25"),
    "query": ("query=history", "ragsweep.parts.queries", "History"),
    "router": ("router=rule", "ragsweep.parts.routers", "Rule"),
    "llm": ("llm=extractive", "ragsweep.parts.generators", "Extractive"),
}
"""Keys of a config with an option, and the class from which a part of the user's own is derived."""

QUESTION = "where does the cat rest"
TEXTS = ["", "null", "[]", '"text"', "[" * 100_000, '{"config": ' * 900 + "1" + "}" * 900, "1" * 5000, "1e999", "{"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _, bundle = shipped(tmp_path_factory.mktemp("whole"), "retriever=hybrid_rrf", "llm=extractive", "router=rule")
    return bundle


@pytest.fixture
def bundle(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "bundle"))


@pytest.mark.parametrize("key", PARTS)
def test_changed_part_is_refused_by_its_key(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    option, place, name = PARTS[key]
    file = tmp_path / f"changing_{key}.py"
    file.write_text(f"from {place} import {name}\n\n\nclass Own({name}):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", file.stem)
    _, bundle = shipped(tmp_path, "retriever=bm25", option, f"{key}._target_={file.stem}.Own")
    ServedPipeline(bundle)
    file.write_text(file.read_text().replace("pass", "ADDED = 1"))
    importlib.reload(importlib.import_module(file.stem))
    with pytest.raises(InputError, match=f"bundle: {key}.*: differs from the shipped part"):
        ServedPipeline(bundle)


def test_every_value_of_the_manifest_is_as_it_was_shipped(bundle: Path) -> None:
    text = (bundle / MANIFEST).read_text()
    for n, (container, key) in enumerate(list(places(json.loads(text)))):
        manifest = json.loads(text)
        container, key = list(places(manifest))[n]
        container[key] = "changed"
        (bundle / MANIFEST).write_text(json.dumps(manifest))
        refused = (
            "format changed; this version reads"
            if key == "format"
            else r"manifest\.json: differs from the shipped file"
        )
        with pytest.raises(InputError, match=refused):
            ServedPipeline(bundle)


def test_whitespace_and_order_of_a_manifest_prove_nothing(bundle: Path) -> None:
    manifest = json.loads((bundle / MANIFEST).read_text())
    (bundle / MANIFEST).write_text(json.dumps(dict(reversed(manifest.items()))))
    assert ServedPipeline(bundle).answer(QUESTION).context


@pytest.mark.parametrize("name", [CORPUS, REFERENCE, WORDS, STAGES])
def test_every_file_is_as_it_was_shipped(name: str, bundle: Path) -> None:
    path = bundle / name if (bundle / name).is_file() else max((bundle / name).iterdir())
    before = path.read_bytes()
    for data in (before[:-1], before + b" ", before[:-1] + bytes([before[-1] ^ 1]), None):
        path.unlink() if data is None else path.write_bytes(data)
        with pytest.raises(InputError, match=f"{re.escape(str(path))}: is missing, or differs from the shipped file"):
            ServedPipeline(bundle)


def test_bundle_of_an_earlier_version_is_refused_with_the_command_that_ships_again(bundle: Path) -> None:
    (bundle / MANIFEST).write_text('{"format": "ragsweep.bundle/1", "context": "", "stages": [], "config": {}}')
    with pytest.raises(InputError, match=r"format ragsweep\.bundle/1; .*: ragsweep ship RUN --name MODEL"):
        ServedPipeline(bundle)


def test_folder_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a ragsweep bundle .*; ship the config again"):
        ServedPipeline(tmp_path)


def damage(bundle: Path, chance: random.Random) -> None:
    """Damage one or two files, the manifest most often."""
    files = sorted(path for path in bundle.rglob("*") if path.is_file())
    path, other = (chance.choice([bundle / MANIFEST, *files]) for _ in range(2))
    data = bytearray(path.read_bytes())
    match chance.randrange(7):
        case 0:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        case 1:
            data = data[: chance.randrange(len(data))]
        case 2:
            data, before = other.read_bytes(), data
            other.write_bytes(before)
        case 3:
            data += chance.randbytes(chance.randint(1, 99))
        case 4:
            data = chance.choice(TEXTS).encode()
        case 5:
            path.unlink()
            return
        case _:
            path = bundle / chance.choice([MANIFEST, MANIFEST, REFERENCE])
            data = json.dumps(mutated(json.loads(path.read_text()), chance)).encode()
    path.write_bytes(data)


def served(bundle: Path) -> tuple[str, list[str], str]:
    """Return what a bundle answers and its reference, or the sentence with which it is refused."""
    try:
        found, manifest = ServedPipeline(bundle).answer(QUESTION), read_manifest(bundle, (REFERENCE, WORDS))
    except RagsweepError as fault:
        return "", [], str(fault)
    return found.answer.text, [one.text for one in found.context], f"{manifest} {Reference.read(bundle)}"


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 100), *(pytest.param(n, 1000, marks=pytest.mark.nightly) for n in (1, 2))]
)
def test_damaged_bundle_answers_as_before_or_is_refused(seed: int, count: int, whole: Path, tmp_path: Path) -> None:
    chance, right, refused = random.Random(seed), served(whole), 0
    for _ in range(count):
        bundle = Path(shutil.copytree(whole, tmp_path / "bundle"))
        damage(bundle, chance)
        if (found := served(bundle)) != right:
            assert found[:2] == ("", [])
            assert len(found[2].removeprefix(str(bundle)).splitlines()[0]) == len(found[2].removeprefix(str(bundle)))
            assert len(found[2]) < len(str(bundle)) + 300
            refused += 1
        shutil.rmtree(bundle)
    assert refused > 0.8 * count
