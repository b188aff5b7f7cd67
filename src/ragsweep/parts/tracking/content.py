"""What is recorded of a result, in the forms that MLflow takes: keys, metrics, parameters, files. Knows no MLflow."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.core.results import Result
from ragsweep.parts.targets import PASS

LONGEST_PARAMETER = 6_000  # MLflow cuts longer values and says nothing
LONGEST_KEY = 250
LONGEST_GROUP = 100
OUTCOMES_FORMAT = "ragsweep.outcomes/1"


def key(name: str) -> str:
    """Put a name in the characters that MLflow allows; it reads keys as paths, so ``//`` and ``..`` are refused too."""
    if len(name) > LONGEST_KEY:  # cut, and told from others that begin alike
        name = f"{name[: LONGEST_KEY - 9]}-{hashlib.sha256(encoded(name)).hexdigest()[:8]}"
    parts = re.sub(r"[^\w.\- /]|\.\.+", "_", name).split("/")
    return "/".join(part if part.strip(". ") else "_" for part in parts if part) or "_"


def metrics(result: Result) -> dict[str, float]:
    """Name every number of a result.

    A metric over all questions has its plain name, and beside it ``n_scored/<name>``, ``n_failed/<name>`` and the 95
    % interval ``low/<name>`` to ``high/<name>``. A group's is ``<label>/<value>/<name>`` with its ``n_scored/...``,
    for the config's headline metrics (all are in results.json: a thousand numbers a run would drown the pages), and
    is left out where none of its questions could be scored. The probe of a stage is ``latency/<stage>/p95_ms`` and
    the like; what an index cost is ``index/seconds`` and ``index/bytes``, in a hybrid ``index_<leg>/...``; before
    reranking a metric is ``first_stage/<name>``, and what reranking did is ``reranking/up`` and the like;
    ``target/<name>`` is 1 where the metric's target is met, else 0; ``usage/generate/tokens_in`` and the like say
    what the answers cost when they were first made; of a config that a race dropped ``race/asked`` is how many
    questions it was asked, and ``race/ahead`` by how much the best is ahead of it at least; where something went wrong,
    ``coverage/<name>`` is the share of its questions that a metric is known of, and ``low_bound/<name>`` and
    ``high_bound/<name>`` what it may be; ``tokens_cut_share`` is the share of the chunks' tokens that the embedder
    never read.
    """
    headline = (*result.config.get("headline", ()), *result.config.get("answer_headline", ()))
    # MLflow's pages offer the metrics in the order in which they were sent.
    summaries = sorted(result.summaries.values(), key=lambda summary: summary.name not in headline)
    found = {_part(summary.name): summary.value for summary in summaries}
    for summary in summaries:
        name = _part(summary.name)
        found[f"n_scored/{name}"] = summary.n_scored
        found[f"n_failed/{name}"] = summary.n_failed
        found[f"low/{name}"] = summary.low
        found[f"high/{name}"] = summary.high
        if summary.coverage < 1:
            found[f"coverage/{name}"] = summary.coverage
            found[f"low_bound/{name}"] = summary.low_bound
            found[f"high_bound/{name}"] = summary.high_bound
    for label, values in result.groups.items():
        parts = _distinct(list(values))
        for value, group in values.items():
            for summary in group.values():
                if not summary.n_scored or (headline and summary.name not in headline):
                    continue
                name = f"{_part(label)}/{parts[value]}/{_part(summary.name)}"
                found[name] = summary.value
                found[f"n_scored/{name}"] = summary.n_scored
    for stage, numbers in result.latency.items():
        found.update({f"latency/{_part(stage)}/{name}": value for name, value in numbers.items()})
    for index, numbers in result.indexes.items():
        found.update({f"{_part(index)}/{name}": value for name, value in numbers.items()})
    for stage, spent in result.usage.items():
        found.update({f"usage/{_part(stage)}/{name}": float(value) for name, value in spent.items()})
    found.update({f"first_stage/{_part(name)}": summary.value for name, summary in result.first_stage.items()})
    found.update({f"reranking/{name}": value for name, value in result.reranking.items()})
    found.update({f"race/{name}": float(value) for name, value in result.race.items() if not isinstance(value, str)})
    found.update({f"target/{_part(one.metric)}": float(one.verdict == PASS) for one in result.targets if one.band})
    if "tokens_cut_share" in result.stages.get("embed", {}):
        found["tokens_cut_share"] = result.stages["embed"]["tokens_cut_share"]
    return {key(name) if len(name) > LONGEST_KEY else name: value for name, value in found.items()}


def parameters(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what can be sent as parameters, and the values too long for that: these are sent as their hash."""
    long = {name: value for name, value in values.items() if len(value) > LONGEST_PARAMETER}
    hashes = {name: f"sha256:{hashlib.sha256(encoded(value)).hexdigest()}" for name, value in long.items()}
    return {key(name): value for name, value in {**values, **hashes}.items()}, long


def dataset(result: Result) -> tuple[str, str]:
    """Return source (digests in full) and profile (counts) of the golden set, as JSON."""
    facts = result.dataset
    counts = {name: getattr(facts, name) for name in ("documents", "questions", "with_evidence", "unanswerable")}
    source = {"golden_digest": facts.golden_digest, "corpus_digest": facts.corpus_digest}
    return json.dumps(source), json.dumps({**counts, "left_out": dict(facts.left_out)})


def parquet(result: Result) -> bytes:
    """Write the table of questions; a column of mixed types becomes text."""
    import pyarrow  # type: ignore[import-untyped, unused-ignore]
    from pyarrow import parquet as writer  # type: ignore[import-untyped, unused-ignore]

    def column(values: Sequence[Any]) -> Any:
        try:
            return pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            return pyarrow.array([None if value is None else str(value) for value in values])

    table = pyarrow.table({name: column(values) for name, values in result.outcomes.items()})
    facts = {"format": OUTCOMES_FORMAT, "signature": result.signature}
    buffer = pyarrow.BufferOutputStream()
    writer.write_table(table.replace_schema_metadata({**(table.schema.metadata or {}), **facts}), buffer)
    return bytes(buffer.getvalue().to_pybytes())


def yaml(config: Mapping[str, Any]) -> bytes:
    """Write a config as YAML, in its own order."""
    import yaml as writer  # type: ignore[import-untyped, unused-ignore]

    plain = json.loads(json.dumps(config, default=str))
    dumper = getattr(writer, "CSafeDumper", writer.SafeDumper)  # the one in C takes a seventh of the time
    return encoded(str(writer.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True)))


def encoded(text: str) -> bytes:
    """Encode a text; what no encoding can hold (half a surrogate pair) becomes a question mark."""
    return text.encode("utf-8", "replace")


def _part(name: str) -> str:
    return key(name.replace("/", "_"))


def _distinct(values: Sequence[str]) -> dict[str, str]:
    """Name the groups so that two never share a key, even where they differ only in characters that MLflow refuses."""
    parts: dict[str, str] = {}
    for value in values:
        part = _part(value)[:LONGEST_GROUP]
        if part in parts.values():
            part = f"{part}-{hashlib.sha256(encoded(value)).hexdigest()[:6]}"
        parts[value] = part
    return parts
