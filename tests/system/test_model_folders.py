"""A model's folder runs no code: what would is refused in words, or loaded without it, by every part that loads one."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.parts import model_files
from ragsweep.parts.embedders import SentenceTransformerEmbedder
from ragsweep.parts.rerankers import CrossEncoder

KINDS = {
    "embedder": (SentenceTransformerEmbedder, lambda part: part.embed_queries(["the cat"])),
    "reranker": (CrossEncoder, lambda part: part.score([("the cat", "sat")])),
}


class Folder:
    """A copy of a tiny model, to be spoilt, and the file that its code would write."""

    def __init__(self, kind: str, path: Path, trace: Path) -> None:
        self.kind = kind
        self.path = path
        self.trace = trace

    def edit(self, name: str, **settings: Any) -> None:
        """Set keys of a JSON file."""
        path = self.path / name
        path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **settings}), "utf-8")

    def use(self) -> Any:
        """Check the model, load it and compute with it."""
        made, compute = KINDS[self.kind]
        part = made(str(self.path), device="cpu", dtype="float32")
        part.check()
        return compute(part)


@pytest.fixture(params=sorted(KINDS))
def folder(request: pytest.FixtureRequest, tmp_path: Path, tiny_embedder: Path, tiny_classifier: Path) -> Folder:
    """Copy a model, and put beside it code that leaves a trace."""
    copy = tmp_path / "model"
    shutil.copytree({"embedder": tiny_embedder, "reranker": tiny_classifier}[request.param], copy)
    code = f"open({str(tmp_path / 'trace')!r}, 'w').close()\nclass Evil: pass\nclass EvilConfig: pass\n"
    (copy / "evil.py").write_text(code, "utf-8")
    return Folder(request.param, copy, tmp_path / "trace")


class Leaving:
    """Leave a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.trace), "w"))


def test_module_that_is_not_the_librarys_is_refused_before_loading(folder: Folder) -> None:
    modules = [{"idx": 0, "name": "0", "path": "", "type": "evil.Evil"}]
    (folder.path / "modules.json").write_text(json.dumps(modules), "utf-8")
    with pytest.raises(ConfigError, match=rf"^{folder.kind}\.model is .*requires custom code \(evil\.Evil\)"):
        folder.use()
    assert not folder.trace.exists()


@pytest.mark.parametrize("model_type", ["bert", "evil"])
def test_classes_of_its_own_are_passed_over_or_refused(folder: Folder, model_type: str) -> None:
    named = {
        "AutoConfig": "evil.EvilConfig",
        "AutoModel": "evil.Evil",
        "AutoModelForSequenceClassification": "evil.Evil",
    }
    folder.edit("config.json", auto_map=named, model_type=model_type)
    folder.edit("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.Evil", None]})
    if model_type == "bert":
        assert folder.use().size
    else:
        with pytest.raises(ConfigError, match=r"cannot be loaded: .* contains custom code .*is never run\)") as caught:
            folder.use()
        assert "\n" not in str(caught.value)
        assert "trust_remote_code" not in str(caught.value)
    assert not folder.trace.exists()


@pytest.mark.parametrize("key", ["_attn_implementation_internal", "_attn_implementation", "attn_implementation"])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_kernel_from_the_hub_is_refused_before_loading(folder: Folder, key: str, depth: int) -> None:
    kernel = {key: "evil/kernel"}
    folder.edit("config.json", **(kernel, {"text_config": kernel}, {"parts": [{"one": kernel}]})[depth])
    with pytest.raises(ConfigError, match=r"requires custom code \(evil/kernel\); such code is never run"):
        folder.use()


def test_computation_that_the_library_knows_may_be_named(folder: Folder) -> None:
    folder.edit("config.json", attn_implementation="eager")
    assert folder.use().size


def test_pickled_weights_are_refused_with_advice(folder: Folder) -> None:
    (folder.path / "model.safetensors").unlink()
    (folder.path / "pytorch_model.bin").write_bytes(pickle.dumps(Leaving(folder.trace)))
    with pytest.raises(ConfigError, match=r"pickled \(pytorch_model\.bin\).*; use a version with \*\.safetensors"):
        folder.use()
    assert not folder.trace.exists()


def test_pickle_under_the_name_of_safetensors_is_not_unpickled(folder: Folder) -> None:
    target = folder.path.parent / "elsewhere.bin"
    target.write_bytes(pickle.dumps(Leaving(folder.trace)))
    (folder.path / "model.safetensors").unlink()
    (folder.path / "model.safetensors").symlink_to(target)
    with pytest.raises(ConfigError, match=rf"^{folder.kind}\.model is .*, which cannot be loaded: "):
        folder.use()
    assert not folder.trace.exists()


def test_linked_weights_are_those_they_link_to(folder: Folder) -> None:
    expected, facts = folder.use(), model_files.facts(folder.path)
    (folder.path / "model.safetensors").rename(folder.path.parent / "blob")
    (folder.path / "model.safetensors").symlink_to(folder.path.parent / "blob")
    assert folder.use().tolist() == expected.tolist()
    assert model_files.facts(folder.path) == facts


def test_link_to_nothing_is_no_weights(folder: Folder) -> None:
    (folder.path / "model.safetensors").unlink()
    (folder.path / "model.safetensors").symlink_to(folder.path.parent / "absent")
    with pytest.raises(ConfigError, match="there are no weights"):
        folder.use()


def test_modules_below_a_router_are_looked_at_too(tmp_path: Path) -> None:
    part = tmp_path / "query_0_Dense"
    part.mkdir()
    (tmp_path / "router_config.json").write_text("{}", "utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = model_files.facts(tmp_path)
    (part / "model.safetensors").write_bytes(b"other weights")
    assert model_files.facts(tmp_path)["weights"] != before["weights"]
    (part / "model.safetensors").rename(part / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"pickled \(pytorch_model\.bin\)"):
        model_files.locate(str(tmp_path), "embedder.model")
