"""``ragsweep golden check``: list every fault of a golden file, with its line and the nearest passage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.commands.command_line import Parser, ignore_closed_pipe
from ragsweep.core.errors import ConfigError, Faults, InputError, nearest
from ragsweep.core.plurals import counted
from ragsweep.core.secrets import Secrets
from ragsweep.golden.golden_format import read_questions
from ragsweep.golden.golden_set import find_faults
from ragsweep_golden.commands.inputs import need_corpus, need_file, read_config
from ragsweep_golden.gates.mix import compare_mix, read_quotas
from ragsweep_golden.sets.changelog import describe_changes, describe_version, read_changes, read_state, version_facts
from ragsweep_golden.sets.entries import as_entry

_ABOUT = """List all faults for which an evaluation refuses a golden file, in the file's order; for an anchor that is
not found with the nearest passage. Print the version and digest of a file that is read without fault, and its last
changes, and with quotas= the categories beside their wanted shares. Exit status: 0 no fault, 1 faults or quotas that
are not met, 2 files that cannot be read."""


def check(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden check``; return the exit status."""
    parser = Parser("ragsweep golden check", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("words", nargs="*", metavar="FILE | KEY=VALUE", help="the golden file; corpus=FOLDER or FILE")
    options = parser.parse_intermixed_args(arguments)
    file = need_file(options, "check")
    values = read_config([word for word in options.words if "=" in word], Secrets())
    quotas = _quotas(values)
    corpus = need_corpus(values, "check")
    faults = Faults()
    digest = read_state(file, faults).digest
    raw = read_questions(file, corpus.version, faults)
    find_faults(raw.questions, corpus, faults)
    lines = {fault: re.match(rf"{re.escape(str(file))}:(?:\$\[)?(\d+)", fault) for fault in faults.found}
    if not all(lines.values()):
        raise InputError("\n".join(lines))  # both readers report an unreadable file
    found = sorted(lines, key=lambda fault: int(lines[fault][1]))  # type: ignore[index]
    with ignore_closed_pipe():
        print("".join(f"{fault}\n" for fault in found), end="")
        labels = sum(len(question.evidence) for question in raw.questions)
        print(f"{file}: {counted(len(raw.questions), 'question')}, {counted(labels, 'label')},", end=" ")
        print(counted(len(found), "fault"))
        if digest:
            print(f"{file}: {describe_version(version_facts(file, digest))}")
            print("".join(f"{line}\n" for line in describe_changes(read_changes(file))), end="")
        mix = compare_mix([as_entry(question) for question in raw.questions], quotas) if quotas else []
        print("".join(f"{row.as_text()}\n" for row in mix), end="")
    return 1 if found or not all(row.is_met for row in mix) else 0


def _quotas(values: Mapping[str, Any]) -> dict[str, float]:
    given = values["quotas"]
    if isinstance(given, str):
        if given not in values["mixes"]:
            raise ConfigError(f"quotas: no mix {given!r}{nearest(given, values['mixes'])}")
        given = values["mixes"][given]
    return read_quotas(given or {})
