"""A hit means the same computation: every key of every option is classified, and changing it changes what it should."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from ragsweep.evaluation.experiment import Experiment
from ragsweep.stages.graph import SOURCE
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.composing.compose import Composer, config_folder
from ragsweep.sweep.composing.job import Job, JobConfig
from ragsweep.sweep.running.session import Session
from support import commands as configs
from support import json_lines, nightly
from support.commands import write_option

# --- what every key does ------------------------------------------------------------------------------------------
# A key changes the addresses of these stages and of all that read them ("corpus": the documents), or the signature only
# ("labels", "metrics"), or nothing ("-").

DATASET = {"_target_": "corpus", "path": "corpus", "corpus": "corpus", "exclude": "corpus", "split": "labels",
           "golden": "labels", "topics": "labels", "fields": "labels", "qrels": "labels", "questions": "labels",
           "columns": "labels", "corpus_columns": "corpus", "grades": "labels", "unknown": "-", "limit": "labels",
           "seed": "-", "conversation": "labels", "repeated_passages": "labels", "status": "labels",
           "cases": "labels", "query": "labels",
           "request": "labels", "exclude_self": "-", "encoding": "-"}  # fmt: skip
DATASETS = {
    "python_reference": (),
    "beir": ("path", "split", "grades", "unknown", "exclude_self"),
    "jsonl": ("corpus", "golden", "unknown", "repeated_passages", "status", "encoding"),
    "trec": ("corpus", "topics", "qrels", "fields", "grades", "unknown"),
    "squad": ("path", "unknown"),
    "folder": ("path", "golden", "exclude", "unknown", "repeated_passages", "status", "encoding"),
    "csv": ("corpus", "questions", "columns", "conversation", "corpus_columns", "grades", "unknown", "encoding"),
    "cases": ("cases", "corpus", "query", "request", "unknown"),
}
EMBEDDER = {"_target_": "embed", "model": "embed", "device": "latency", "dtype": "embed", "batch_size": "-",
            "normalize": "embed", "query_prompt": "embed", "document_prompt": "embed", "max_length": "embed",
            "download": "-"}  # fmt: skip
BM25 = {"_target_": "index", "k1": "index", "b": "index", "backend": "index", "language": "index",
        "min_score": "drop"}  # fmt: skip
VECTOR = {"_target_": "retrieve", "index._target_": "index", "exact._target_": "-", "min_score": "drop"}
REORDERING = {"candidates": "reorder", "min_score": "reorder", "mix": "reorder"}
CROSS_ENCODER = {"_target_": "rerank", "model": "rerank", "max_length": "rerank", "dtype": "rerank", "device": "-",
                 "batch_size": "-", "download": "-", **REORDERING}  # fmt: skip
CALLED = dict.fromkeys(("key_env", "timeout", "deadline", "retries", "concurrency", "requests_per_minute"), "-")
HTTP = {**dict.fromkeys(("_target_", "url", "answer", "contexts", "ids", "scores", "tokens_in", "tokens_out",
                         "refusals", "thoughts", "version"), "respond"), **CALLED, "key_header": "-"}  # fmt: skip
CHAT = ("body.model", "body.messages")
BODIES = {**dict.fromkeys(("search", "http", "java_search", "langserve"), ("body",)), "azure_openai": CHAT[1:],
          "openai_chat": CHAT,
          "openai_stream": (*CHAT, "body.stream", "body.stream_options.include_usage")}  # fmt: skip
CROSS_ENCODERS = ("cross_encoder", "bge_reranker_base", "bge_reranker_v2_m3", "mxbai_rerank_base")
PROMPT = ("system", "system_alone", "question", "passage", "refusals", "citations")  # "-" where no llm is asked
JUDGE = {**dict.fromkeys(("_target_", "base_url", "model", "temperature", "max_tokens", "seed", "samples", "replicate",
                          "thoughts", "fence", "structured", "embeddings_model", "embeddings_base_url"), "judge"),
         **dict.fromkeys(("key_env", "embeddings_key_env", "concurrency", "timeout", "deadline", "retries",
                          "requests_per_minute", "tokens_per_minute", "labels"), "-")}  # fmt: skip
OF_EMBEDDINGS = {f"embeddings.{key}": "judge" if does == "embed" else does for key, does in EMBEDDER.items()}
JUDGES = {"openai": {"embeddings": "judge"}, "ollama": {"embeddings": "judge"}, "vllm": OF_EMBEDDINGS}
GGUF = {**dict.fromkeys(("_target_", "model", "max_new_tokens", "temperature", "seed", "thoughts", "window", "threads",
                         "replicates", "quantization"), "generate"), "parallel": "-"}  # fmt: skip
OPENAI = {**dict.fromkeys(("_target_", "base_url", "model", "temperature", "max_tokens", "seed",
                           "replicates", "thoughts"), "generate"),
          **dict.fromkeys(("key_env", "timeout", "deadline", "retries", "concurrency", "requests_per_minute",
                           "tokens_per_minute"), "-")}  # fmt: skip
KEYS: Mapping[str, Mapping[str, str]] = {
    **{f"dataset/{name}": {key: DATASET[key] for key in ("_target_", *own, "limit", "seed")}
       for name, own in DATASETS.items()},
    "chunker/none": {"_target_": "chunk"},
    "chunker/fixed_size": {"_target_": "chunk", "size": "chunk", "overlap": "chunk"},
    "chunker/recursive": {"_target_": "chunk", "size": "chunk", "min_characters": "chunk"},
    "chunker/tokens": {"_target_": "chunk", "size": "chunk", "overlap": "chunk", "tokenizer": "chunk",
                       "download": "-"},
    "chunker/sentence_window": {"_target_": "chunk", "sentences": "chunk", "stride": "chunk", "language": "chunk"},
    "chunker/markdown": {"_target_": "chunk", "size": "chunk"},
    "chunker/semantic": {"_target_": "chunk", "percentile": "chunk", "size": "chunk", "language": "chunk"},
    "chunker/parent_child": {"_target_": "-", **{f"{part}.{key}": "chunk" for part in ("parent", "child")
                                                 for key in ("_target_", "size", "min_characters")}},
    "embedder/minilm": EMBEDDER,
    "embedder/sentence_transformer": EMBEDDER,
    "embedder/static": EMBEDDER,
    "embedder/wordllama": {"_target_": "embed", "dimensions": "embed"},
    "embedder/use_multilingual": {"_target_": "embed"},
    "embedder/hashing": {"_target_": "embed", "dimensions": "embed", "ngram": "embed"},
    "embedder/api": {**dict.fromkeys(("_target_", "base_url", "model", "dimensions", "normalize", "query_prompt",
                                      "document_prompt"), "embed"),
                     **dict.fromkeys(("key_env", "timeout", "retries", "concurrency", "batch_size"), "-")},
    "retriever/bm25": BM25,
    "retriever/none": {"_target_": "index"},
    "retriever/vector": VECTOR,
    "retriever/hybrid_rrf": {"_target_": "fuse", "k": "fuse", "weights": "fuse",
                             **{f"legs.bm25.{key}": stage for key, stage in BM25.items()},
                             **{f"legs.vector.{key}": stage for key, stage in VECTOR.items()}},
    "retriever/hybrid_convex": {"_target_": "fuse", "alpha": "fuse", "alpha_leg": "fuse", "weights": "fuse",
                                "normalisation": "timed",
                                **{f"legs.bm25.{key}": stage for key, stage in BM25.items()},
                                **{f"legs.vector.{key}": stage for key, stage in VECTOR.items()}},
    "reranker/none": {"_target_": "-"},
    "reranker/late_interaction": {"_target_": "embed_tokens", **REORDERING},
    **{f"reranker/{name}": CROSS_ENCODER for name in CROSS_ENCODERS},
    "reranker/api": {"_target_": "rerank", "base_url": "rerank", "model": "rerank", "key_env": "-", "timeout": "-",
                     "retries": "-", "batch_size": "-", "concurrency": "-", **REORDERING},
    "judge/none": {"_target_": "judge"},
    **{f"judge/{name}": {**JUDGE, **more} for name, more in JUDGES.items()},
    **{f"prompt/{name}": dict.fromkeys(("_target_", *PROMPT), "-")
       for name in ("default", "default_fr", "cite", "concise", "golden_questions", "golden_unanswerable")},
    "llm/none": {"_target_": "-"},
    "llm/extractive": dict.fromkeys(("_target_", "sentences", "threshold", "language"), "generate"),
    "llm/transformers": {**dict.fromkeys(("_target_", "model", "max_new_tokens", "temperature", "seed", "dtype",
                                        "replicates", "thoughts", "batch"),
                                         "generate"), "device": "-", "download": "-"},
    "llm/gguf": GGUF,
    "llm/smollm2": GGUF,
    "llm/do_nothing": dict.fromkeys(("_target_", "answer"), "generate"),
    "llm/expected": dict.fromkeys(("_target_", "answer"), "generate"),
    "llm/openai": OPENAI,
    "llm/ollama": OPENAI,
    "llm/vllm": OPENAI,
    "llm/mistral": {**OPENAI, "extra.random_seed": "generate"},
    "tracking/mlflow": dict.fromkeys(("_target_", "uri", "experiment", "traces", "tables"), "-"),
    "tracking/none": {"_target_": "-"},
    "router/none": {"_target_": "-"},
    "router/rule": dict.fromkeys(("_target_", "conversation", "most_words"), "route"),
    "router/similarity": dict.fromkeys(("_target_", "conversation", "questions", "threshold"), "route"),
    "router/llm": {**dict.fromkeys(("_target_", "base_url", "model", "instruction", "temperature", "max_tokens",
                                    "seed", "thoughts"), "route"), **CALLED, "tokens_per_minute": "-"},
    "output/text": {"_target_": "-"},
    "output/fenced": dict.fromkeys(("_target_", "language"), "-"),
    "output/json": dict.fromkeys(("_target_", "schema"), "-"),
    "query/last": {"_target_": "-"},
    "query/history": dict.fromkeys(("_target_", "turns", "roles"), "query"),
    "query/rewrite": dict.fromkeys(("_target_", "instruction"), "query"),
    "system/pipeline": {"_target_": "-"},
    **{f"system/{name}": {**dict.fromkeys(body, "respond"), **HTTP} for name, body in BODIES.items()},
    "system/python": {**dict.fromkeys(("_target_", "function", "answers", "refusals", "thoughts", "version"),
                                      "respond"), "concurrency": "-"},
    "": {"top_k": "context", "context_budget": "context", "answer_headline": "-", "coverage": "-",
         "depth": "retrieve", "seed": "-", "partition": "labels", "evidence.threshold": "metrics", "objective": "-",
         "finalists": "-", "success.metric": "-", "success.threshold": "-",
         "success.unanswerable": "labels", "headline": "-",
         "baseline": "-", "recommend.loss": "-", "recommend.margin": "-",
         "questions.until": "-", "rerun": "-", "name": "-", "by": "-", "timeout": "-",
         "max_failures": "-", "plan": "-", "progress": "-", "compute": "-",
         **dict.fromkeys(map("store.{}".format, ("path", "worker_path", "stages", "remote")), "-"),
         **dict.fromkeys(("budget.calls", "budget.tokens", "budget.money"), "-"),
         **dict.fromkeys(map("constraints.{}".format, ("cost_per_1000", "context_tokens", "latency_p95_ms")), "-")},
}  # fmt: skip
PARTS = ("dataset", "embedder", "llm", "prompt", "prices")
"""Parts that others name by interpolation: their keys are classified where they stand."""

METRICS = "metrics"
"""Every key of the groups of metrics is part of a metric's definition."""

TARGETS = "targets"
"""No key of the groups of targets is part of any address, nor of a signature."""

TASKS = ("task", "answer_metrics", "answer_context")
"""The groups of tasks, and of what an llm adds, choose options and keys of other groups."""

PRICES = "prices"
"""Every key of the groups of prices is part of the definition of the metrics that count money, and of nothing else."""

CHANGES: Mapping[str, str] = {
    "size": "333", "overlap": "7", "min_characters": "5", "sentences": "7", "stride": "2", "percentile": "50",
    "store.remote": "s3://bucket/folder", "store.worker_path": "elsewhere", "compute": "ray",
    "tokenizer": "{tokenizer}", "chunker/sentence_window.language": "french", "chunker/semantic.language": "french",
    "model": "{other}", "device": "cuda", "dtype": "float16", "batch_size": "3", "normalize": "false",
    "query_prompt": "ask", "document_prompt": "read", "max_length": "9", "download": "true",
    "k1": "1.1", "b": ".5", "backend": "rank_bm25", "language": "none",
    "k": "7", "alpha": ".3", "normalisation": "theoretical", "alpha_leg": "bm25", "weights": "{{bm25: 2, vector: 1}}",
    "min_score": ".2", "limit": "2", "seed": "4", "unknown": "drop", "split": "dev", "path": "{beir2}",
    "corpus": "{jsonl2}/corpus.jsonl", "golden": "{jsonl2}/golden.jsonl", "repeated_passages": "true", "status": "gold",
    "dataset/squad.path": "{squad2}/dev.json", "dataset/folder.path": "{folder2}/pages",
    "dataset/folder.golden": "{folder2}/golden.jsonl", "exclude": "[d2*]",
    "topics": "{trec2}/topics", "qrels": "{trec2}/qrels", "fields": "[description]",
    "questions": "{csv2}/questions.csv", "grades": "{{1: 3, -1: null}}",
    "columns": "{{category: document}}", "corpus_columns": "{{title: id}}",
    "window": "300", "parallel": "1", "threads": "2", "quantization": "Q8_0", "llm/gguf.model": "{gguf}",
    "base_url": "http://elsewhere/v1", "dimensions": "7", "ngram": "3", "embedder/wordllama.dimensions": "64",
    "key_env": "OTHER_KEY", "retries": "1", "concurrency": "2",
    "system": "Speak.", "system_alone": "Alone.", "question": "'{{passages}} {{question}}'",
    "passage": "'{{text}}, {{number}}'",
    "refusals": "[none]", "citations": "true", "prompt/cite.citations": "false",
    "llm/extractive.language": "french", "threshold": ".3", "max_new_tokens": "9", "replicates": "3", "batch": "3",
    "cases": "{cases2}/golden.jsonl", "query": "'of {{category}}'", "request": "'mend {{input}}'",
    "dataset/csv.conversation": "[chat]", "dataset/cases.corpus": "{cases2}/corpus.jsonl",
    "schema": "{{type: object, required: [a]}}",
    "output/fenced.language": "sql", "llm/do_nothing.answer": "'{{expected}}'", "llm/expected.answer": "'{{input}}'",
    "context_budget": "50", "answer_headline": "[refusal]", "coverage": ".5",
    "thoughts": "null",
    "temperature": ".5", "max_tokens": "9", "extra.random_seed": "3", "deadline": "7", "requests_per_minute": "5",
    "tokens_per_minute": "5", "budget.calls": "5", "budget.tokens": "5", "budget.money": "5",
    "uri": "sqlite:///other.db", "experiment": "other", "traces": "all", "tables": "all",
    "conversation": "[hey]", "most_words": "3", "router/similarity.questions": "[what]",
    "instruction": "Decide.", "router/llm.model": "other", "router/similarity.conversation": "[hey]",
    "turns": "2", "roles": "[user]", "url": "http://elsewhere/ask", "body": "{{q: '{{question}}'}}",
    "answer": "said", "contexts": "texts[*]",
    "scores": "weights[*]", "key_header": "api-key", "answers": "false",
    "ids": "names[*]", "tokens_in": "used[0]", "tokens_out": "used[1]", "version": "'2'",
    "function": "support.parts.corpus",
    "top_k": "4", "depth": "50", "evidence.threshold": ".7", "objective": "mrr", "finalists": "2",
    "baseline": "1", "loss": ".01",
    "success.metric": "mrr", "unanswerable": "0", "margin": ".1",
    "headline": "[mrr]", "rerun": "true", "name": "mine", "by": "category",
    "partition": "tune", "cost_per_1000": "null", "context_tokens": "9", "latency_p95_ms": "9",
    "until": "8", "timeout": "9", "max_failures": "2", "plan": "true", "store.path": "elsewhere",
    "progress": "questions", "store.stages": "false", "exclude_self": "true", "encoding": "utf-8",
}  # fmt: skip
"""Another value of each key, by its last name, in full, or with its option. Another class is another option: below."""


STAGES = {"chunk", "index", "retrieve", "drop", "fuse", "context", "generate", "route", "query", "respond"}


FEW = ("mrr", "ndcg_at_3", "latency_p50_ms", "context_recall", "context_ndcg", "context_tokens", "latency_p95_ms")
"""The metrics of the option ``metrics=lean``: metrics are part of the signature, and slow to prepare."""


Changed = Callable[..., Experiment]


@pytest.fixture(scope="module")
def changed(data: dict[str, Path]) -> Changed:
    """Prepare the config of these overrides with another value of a key, in YAML."""
    composer = Composer(data["conf"])

    def prepare(lines: Sequence[str], key: str = "", value: str = "") -> Experiment:
        config = composer.compose(lines)
        changes = {**config.changes, **({key: yaml.safe_load(value)} if key else {})}
        return Session().prepare(Job(JobConfig(config.template, changes), "", ()))

    return prepare


def options() -> list[str]:
    folders = [path for path in config_folder().iterdir() if path.is_dir() and path.name != "hydra"]
    return sorted(f"{path.name}/{option.stem}" for path in folders for option in path.glob("*.yaml"))


def keys(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of values, without those that stand for another part of the config."""
    for key, value in node.items():
        if isinstance(value, dict):
            yield from keys(value, f"{prefix}{key}.")
        elif value != f"${{{key}}}" or key not in PARTS:
            yield f"{prefix}{key}"


def test_every_key_of_every_option_is_classified() -> None:
    unclassified, gone = [], []
    by_group: dict[str, list[str]] = {}
    for option in options():
        group = option.split("/")[0]
        if group not in (METRICS, TARGETS, PRICES, *TASKS):
            by_group.setdefault(group, []).append(option)
    for together in zip_longest(*by_group.values()):  # to compose takes a fifth of a second
        chosen = [option for option in together if option]
        config = configs.composed(*(option.replace("/", "=") for option in chosen)).written
        for option in chosen:
            found = set(keys(config[option.split("/")[0]]))
            known = set(KEYS.get(option, {}))
            unclassified += sorted(f"{option}: {key}" for key in found - known)
            gone += sorted(f"{option}: {key}" for key in known - found if KEYS[option] is not EMBEDDER)
    config = configs.composed().written
    groups = {option.split("/")[0] for option in options()}
    top = {key for key in keys(config) if key.split(".")[0] not in groups}
    assert (unclassified, gone) == ([], [])
    assert top == set(KEYS[""])


# --- small data ---------------------------------------------------------------------------------------------------

DOCUMENTS = ["the cat sat on the mat. " * 40, "stars and planets and moons. " * 40, "many words of a query. " * 40]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two datasets of each format, and two models that differ in their weights."""
    root = tmp_path_factory.mktemp("data")
    for mark in ("", "2"):
        for (kind, name), content in dataset_files(mark).items():
            path = root / f"{kind}{mark}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")
    _write_model(root / "model", seed=0)
    _write_model(root / "other", seed=1)
    (root / "tokenizer").write_text("{}", "utf-8")
    (root / "gguf").write_bytes(b"GGUF")
    metrics = yaml.safe_load((config_folder() / "metrics" / "retrieval.yaml").read_text("utf-8"))
    write_option(root / "conf", "metrics/lean", json.dumps({name: metrics[name] for name in FEW}))
    return {path.name: path for path in root.iterdir()}


AUDITS = ({"status": "gold"}, {"status": "silver"})


def dataset_files(mark: str) -> dict[tuple[str, str], str]:
    """Return (format, name) -> content of the files of small datasets; ``mark`` changes texts, questions and labels."""
    texts, asked = [text + mark for text in DOCUMENTS], [f"where is {n}{mark}?" for n in range(4)]
    documents = json_lines({"id": f"d{n}", "text": text} for n, text in enumerate(texts))
    questions = [
        {"id": f"q{n}", "question": text, "evidence": [{"document": f"d{n % 3}"}], "audit": AUDITS[n % 2]}
        for n, text in enumerate(asked)
    ]
    cases = ({"id": f"q{n}", "input": f"mend {n}{mark}", "category": "c", "evidence": [{"document": "d0"}]}
             for n in range(4))  # fmt: skip
    queries = [{"_id": f"q{n}", "text": f"query {n} cat stars words"} for n in range(5)]
    unanswerable = {"_id": "u", "text": "moss", "metadata": {"unanswerable": True}}
    qrels = {split: "".join(f"q{n}\td{n % 3}\t1\n" for n in range(count)) for split, count in (("test", 4), ("dev", 5))}
    paragraphs = [
        {"context": text, "qas": [{"id": f"q{n}", "question": f"where is {n}?",
                                   "answers": [{"text": text.split()[0], "answer_start": 0}]}]}
        for n, text in enumerate(texts)
    ]  # fmt: skip
    return {
        ("beir", "corpus.jsonl"): json_lines({"_id": f"d{n}", "title": "", "text": one} for n, one in enumerate(texts)),
        ("beir", "queries.jsonl"): json_lines([*queries, unanswerable]),
        **{("beir", f"qrels/{split}.tsv"): f"query-id\tcorpus-id\tscore\n{rows}" for split, rows in qrels.items()},
        ("jsonl", "corpus.jsonl"): documents,
        ("jsonl", "golden.jsonl"): json_lines(questions),
        ("trec", "corpus.jsonl"): documents,
        ("trec", "topics"): "".join(
            f"<top>\n<num> q{n}\n<title> {text}\n<desc> find {n}\n</top>\n" for n, text in enumerate(asked)
        ),
        ("trec", "qrels"): "".join(f"q{n} 0 d{n % 3} 1{mark}\n" for n in range(4)),
        ("squad", "dev.json"): json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}),
        **{("folder", f"pages/d{n}.md"): text for n, text in enumerate(texts)},
        ("folder", "golden.jsonl"): json_lines({**one, "evidence": [{"document": "d0.md"}]} for one in questions),
        ("csv", "corpus.csv"): "id,text\n" + "".join(f"d{n},{text}\n" for n, text in enumerate(texts)),
        ("csv", "questions.csv"): "id,question,document,category\n"
        + "".join(f"q{n},{text},d{n % 3},\n" for n, text in enumerate(asked))
        + "hello,Good morning,,chat\n",
        ("cases", "corpus.jsonl"): documents,
        ("cases", "golden.jsonl"): json_lines(cases),
    }


def _write_model(folder: Path, seed: int) -> None:
    folder.mkdir()
    save_file({"weights": np.full(3, seed, np.float32)}, folder / "model.safetensors")
    facts = {"max_position_embeddings": 512, "architectures": ["TinyForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(facts), "utf-8")


CASE_FILES = (("cases", "golden"), ("corpus", "corpus"))


def base(option: str, data: Mapping[str, Path], beside: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Choose an option, and beside it what makes a graph of all stages from small data."""
    group, _, name = option.partition("/")
    chosen = {"dataset": "beir", "embedder": "sentence_transformer", "retriever": "hybrid_rrf", "metrics": "lean"}
    chosen |= {**beside, **({group: name} if group else {})}
    needed = {
        "dataset=beir": [f"dataset.path={data['beir']}"],
        "dataset=jsonl": [
            f"dataset.corpus={data['jsonl']}/corpus.jsonl",
            f"dataset.golden={data['jsonl']}/golden.jsonl",
        ],
        "dataset=trec": [f"dataset.{key}={data['trec']}/{key}" for key in ("topics", "qrels")]
        + [f"dataset.corpus={data['trec']}/corpus.jsonl"],
        "dataset=squad": [f"dataset.path={data['squad']}/dev.json"],
        "dataset=folder": [f"dataset.path={data['folder']}/pages", f"dataset.golden={data['folder']}/golden.jsonl"],
        "dataset=csv": [f"dataset.{key}={data['csv']}/{key}.csv" for key in ("corpus", "questions")],
        "dataset=cases": [f"dataset.{key}={data['cases']}/{name}.jsonl" for key, name in CASE_FILES],
        "embedder=sentence_transformer": [f"embedder.model={data['model']}", "embedder.dtype=float32"],
        "embedder=static": [f"embedder.model={data['model']}"],
        "embedder=minilm": ["embedder.dtype=float32"],
        "router=llm": ["router.model=m"],
        "query=rewrite": ["llm=vllm", "llm.model=m"],
        "system=http": ["system.url=http://host/ask"],
        "system=search": ["system.url=http://host/ask"],
        "system=python": ["system.function=support.parts.built"],
        "llm=vllm": ["llm.model=m"],
        "llm=gguf": ["llm.model=smollm2"],
        "llm=transformers": [f"llm.model={data['model']}", "llm.dtype=float32"],
        "embedder=api": ["embedder.base_url=http://host/v1", "embedder.model=m"],
    }
    choices = [f"{key}={value}" for key, value in chosen.items()]
    return [*choices, *(line for choice in choices for line in needed.get(choice, []))]


def addresses(experiment: Experiment) -> dict[str, Any]:
    return {node.address: node for node in experiment.nodes}


def begins(before: Experiment, after: Experiment) -> set[str]:
    """Name the stages at which a change begins: nodes that are new while all they read is old."""
    old, new = addresses(before), addresses(after)
    changed = [node for address, node in new.items() if address not in old]
    return {node.stage for node in changed if all(given.address in old for given in node.inputs)}


TWINS = {"embedder/minilm", "llm/smollm2", "llm/ollama", "llm/vllm", "prompt/concise", "system/java_search",
         "system/langserve", "system/openai_chat", "system/openai_stream", "system/azure_openai"}  # fmt: skip
"""Options that have class and keys of another one in this table."""

MUTATIONS = [
    (option, key)
    for option, known in KEYS.items()
    for key in known
    # changed in test_reranked_pipeline.py and in test_judge_addresses.py, where they can be built
    if not option.startswith(("reranker/", "judge/")) and option not in TWINS
    if not (option in ("llm/transformers", "llm/gguf") and key == "replicates")  # refused at their temperature of 0
    if not key.endswith("_target_") and not (option == "retriever/hybrid_convex" and key.startswith("legs."))
]


def beside(option: str) -> dict[str, str]:
    """Choose the options of independent groups that are tried in one config: all first ones, all second ones, ..."""
    groups = {
        group: [name.partition("/")[2] for name in KEYS if name.startswith(f"{group}/") and name not in TWINS]
        for group in ("dataset", "chunker", "prompt", "output", "tracking")
    }
    group, _, name = option.partition("/")
    if group not in groups:
        return {}
    place = groups[group].index(name)
    return {group: names[place] for group, names in sorted(groups.items()) if place < len(names)}


@pytest.fixture(scope="module")
def unchanged() -> dict[tuple[str, ...], Experiment]:
    """The configs without a change."""
    return {}


@pytest.mark.parametrize(("option", "key"), MUTATIONS, ids=lambda part: part or "config")
def test_change_of_a_key_changes_what_it_should_and_nothing_else(
    option: str,
    key: str,
    data: dict[str, Path],
    changed: Changed,
    unchanged: dict[tuple[str, ...], Experiment],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "support")  # a system of the user's is a function of theirs
    lines = base(option, data, beside(option))
    names = (f"{option}.{key}", key, key.rpartition(".")[2])
    value = next(CHANGES[name] for name in names if name in CHANGES)
    if tuple(lines) not in unchanged:
        unchanged[tuple(lines)] = changed(lines)
    before = unchanged[tuple(lines)]
    after = changed(lines, f"{option.partition('/')[0]}.{key}".lstrip("."), value.format(**data))
    does = KEYS[option][key]
    several = {"corpus": {SOURCE}, "embed": {"embed", "embed_queries"}, "timed": {"fuse", "latency"}}
    stages = several.get(does, {does} & {*STAGES, "latency"})
    assert begins(before, after) == stages
    assert (after.signature == before.signature) == (does in ("-", "latency"))
    if not stages:
        assert addresses(after).keys() == addresses(before).keys()


@pytest.mark.parametrize(
    ("change", "stages"),
    [
        ("chunker=none", {"chunk"}),
        nightly("retriever=hybrid_convex", {"fuse", "latency"}),
        ("retriever@retriever.legs.bm25=none", {"index"}),
        ("targets=none", set()),
        nightly("targets=rag", set()),
        nightly("targets=retrieval", set()),
        nightly("targets=rag_lenient", set()),
        ("+metrics.more={_target_: ragsweep.parts.metrics.Ndcg, cutoff: 7}", set()),
        nightly("metrics.mrr=null", set()),
        nightly("metrics.ndcg_at_3.cutoff=4", set()),
        nightly("metrics.ndcg_at_3.gain=exponential", set()),
        nightly("metrics.latency_p50_ms.quantile=.4", set()),
        nightly("metrics.latency_p50_ms.stage=retrieve", set()),
    ],
)
def test_another_class_is_another_computation_metric_another_result_and_target_the_same(
    change: str, stages: set[str], data: dict[str, Path], changed: Changed
) -> None:
    lines = base("", data)
    before, after = changed(lines), changed([*lines, change])
    assert begins(before, after) == stages
    assert (after.signature == before.signature) == change.startswith("targets")
    assert (addresses(after).keys() == addresses(before).keys()) == (not stages)


def test_another_sample_of_questions_is_another_result_of_the_same_stages(
    data: dict[str, Path], changed: Changed
) -> None:
    lines = [*base("", data), "dataset.limit=2"]
    samples = [changed(lines, "dataset.seed", str(seed)) for seed in range(5)]
    assert len({tuple(addresses(sample)) for sample in samples}) == 1
    assert len({sample.signature for sample in samples}) > 1


def test_keys_of_metrics_are_the_classified_ones() -> None:
    found = {key.rpartition(".")[2] for key in keys(configs.composed().written["metrics"])}
    assert found == {"_target_", "cutoff", "gain", "quantile", "stage"}


# --- the same in other circumstances ------------------------------------------------------------------------------

SHOW = """
import sys
from support.commands import prepare, write_option
from ragsweep.sweep.running.session import Session

experiment = prepare(Session(), *sys.argv[1:])
print(experiment.signature, sorted(node.address for node in experiment.nodes))
"""


def test_addresses_are_the_same_in_another_process_folder_locale_and_order(
    data: dict[str, Path], tmp_path: Path, changed: Changed
) -> None:
    lines = [line for line in base("", data) if line != "metrics=lean"]
    here = changed(lines)
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *reversed(lines)], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path]),
             "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LC_ALL": "C"},
    )  # fmt: skip
    assert done.stdout == f"{here.signature} {sorted(addresses(here))}\n"


def test_order_of_keys_and_comments_do_not_matter(data: dict[str, Path], tmp_path: Path, changed: Changed) -> None:
    shutil.copytree(data["conf"], tmp_path, dirs_exist_ok=True)
    text = "# another comment\nb: 0.75   # here too\nlanguage: english\nk1: 1.5\nbackend: bm25s\n"
    write_option(tmp_path, "retriever/mine", text + "_target_: ragsweep.parts.retrievers.Bm25\n")
    lines = base("retriever/bm25", data)
    mine = [line.replace("retriever=bm25", "retriever=mine") for line in lines]
    command = read_command(mine, multirun=False, config_dir=str(tmp_path))
    found = Session().prepare(Job(compose_jobs(command)[0].config, "mine", tuple(mine)))
    assert found.signature == changed(lines).signature


def edited(path: Path, old: bytes, new: bytes) -> None:
    """Edit a file in place, with its size and its times as they were."""
    times = path.stat()
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize(
    ("option", "name", "old", "new", "stages"),
    [
        ("beir", "corpus", b"the cat", b"the hat", {SOURCE}),
        ("jsonl", "golden", b'"d0"', b'"d1"', set()),
    ],
)
def test_corpus_edited_in_place_is_another_and_a_golden_file_another_result_of_the_same_stages(
    option: str, name: str, old: bytes, new: bytes, stages: set[str], data: dict[str, Path], tmp_path: Path,
    changed: Changed,
) -> None:  # fmt: skip
    copy = {**data, option: Path(shutil.copytree(data[option], tmp_path / option))}
    before = changed(base(f"dataset/{option}", copy))
    edited(copy[option] / f"{name}.jsonl", old, new)
    after = changed(base(f"dataset/{option}", copy))
    assert begins(before, after) == stages
    assert (addresses(after).keys() == addresses(before).keys()) == (not stages)
    assert after.signature != before.signature


def test_weights_swapped_under_the_same_name_are_another_model(
    data: dict[str, Path], tmp_path: Path, changed: Changed
) -> None:
    copy = {**data, "model": Path(shutil.copytree(data["model"], tmp_path / "model"))}
    before = changed(base("", copy))
    shutil.copy(data["other"] / "model.safetensors", copy["model"] / "model.safetensors")
    assert begins(before, changed(base("", copy))) == {"embed", "embed_queries"}


@pytest.mark.parametrize(
    ("option", "library", "stage"),
    [
        ("chunker/recursive", "chonkie", "chunk"),
        ("chunker/recursive", "chonkie-core", "chunk"),
        nightly("chunker/sentence_window", "sentencex", "chunk"),
        nightly("chunker/semantic", "sentencex", "chunk"),
        nightly("chunker/markdown", "markdown-it-py", "chunk"),
        ("retriever/bm25", "bm25s", "index"),
        ("retriever/bm25", "PyStemmer", "index"),
    ],
)
def test_another_version_of_a_library_is_another_computation(
    option: str, library: str, stage: str, data: dict[str, Path], monkeypatch: pytest.MonkeyPatch, changed: Changed
) -> None:
    lines = base(option, data)
    before = changed(lines)
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99" if name == library else real(name))
    assert begins(before, changed(lines)) == {stage}
