"""``ragsweep golden check``: list every fault of a golden file, with its line and the nearest passage."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ragsweep.commands.command_line import print_blocks
from ragsweep.core.errors import ConfigError, Faults, InputError, nearest
from ragsweep.core.plurals import counted
from ragsweep.core.secrets import Secrets
from ragsweep.evaluation.question_table import check_labels
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.golden_set import find_faults
from ragsweep.report.document import Statement, lines
from ragsweep.sweep.composing.compose import Composer
from ragsweep.sweep.composing.composition_errors import compose
from ragsweep.sweep.composing.config_policy import ConfigPolicy
from ragsweep_golden.commands.inputs import read_inputs, words_parser
from ragsweep_golden.gates.mix import compare_mix, read_quotas
from ragsweep_golden.sets.entries import as_entry
from ragsweep_golden.sets.files import describe_changes, describe_version, read_changes, read_state, version_facts

_ABOUT = """List, in file order, all faults for which an evaluation with the default metrics rejects a golden file, and
all evidence without text. For an anchor that is not found, show the nearest passage. For a file without faults, print
its version, its digest and its last changes. With quotas=, print the number of questions that each category has and
should have. Exit status: 0 no fault, 1 a fault or a quota that is not met, 2 bad input."""


def check(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden check``; return 1 on faults or unmet quotas, else 0. Raises RagsweepError for bad input."""
    _, given = read_inputs(words_parser("check", _ABOUT, "the golden file; corpus=FOLDER or FILE"), arguments)
    file, quotas, mixes = given.path, given.values["quotas"], given.values["mixes"]
    if isinstance(quotas, str) and quotas not in mixes:
        raise ConfigError(f"quotas: no mix {quotas!r}{nearest(quotas, mixes)}")
    wanted = read_quotas((mixes[quotas] if isinstance(quotas, str) else quotas) or {})
    corpus, faults = given.corpus, Faults()
    digest = read_state(file, faults).digest
    raw = read_questions(file, corpus.version, faults)
    find_faults(raw.questions, corpus, faults)
    with_llm = compose(Composer(None, ConfigPolicy(Secrets())), ["llm=extractive"]).values  # has all default metrics
    check_labels(raw.questions, with_llm["metrics"], faults)
    if not raw.questions and not faults.found:
        reason = next((f"{why}: {count:,}" for why, count in raw.left_out.items() if count), "the file has none")
        faults.add(f"{file}:1", f"no questions to evaluate ({reason}); add some")
        digest = None
    places = {fault: re.match(rf"{re.escape(str(file))}:(?:\$\[|row )?(\d+)", fault) for fault in faults.found}
    if not all(places.values()):
        raise InputError("\n".join(places))  # both readers report an unreadable file
    found = sorted((int(place[1]), fault) for fault, place in places.items() if place)
    mix = compare_mix([as_entry(question) for question in raw.questions], wanted) if wanted else []
    labels = sum(len(question.evidence) for question in raw.questions)
    counts = {"questions": len(raw.questions), "labels": labels, "faults": len(found)}
    text = ", ".join(counted(count, name.removesuffix("s")) for name, count in counts.items())
    print_blocks(
        lines(
            (Statement("fault", fault, {"line": line}) for line, fault in found),
            Statement("read", f"{file}: {text}", counts),
            _version(file, digest),
            (Statement("mix", row.as_text(), row._asdict()) for row in mix),
        )
    )
    return 1 if found or not all(row.is_met for row in mix) else 0


def _version(file: Path, digest: str | None) -> Iterator[Statement]:
    if digest:
        facts = version_facts(file, digest)
        yield Statement("set", describe_version(facts), facts)
        yield from (Statement("", line) for line in describe_changes(read_changes(file)))
