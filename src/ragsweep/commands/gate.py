"""``ragsweep gate``: decide whether a candidate may replace the baseline."""

import argparse
import math
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ragsweep.commands.command_line import RUN, Parser, add_path, output_file, print_document, write_document
from ragsweep.commands.comparison import pair_verdicts
from ragsweep.commands.gate_report import EXIT_STATUS, Decision, GateDecision, correction, gate_document
from ragsweep.commands.labels import LABELS, check_labelled, known_bounds, metric_range, read_run_labels
from ragsweep.core.errors import ConfigError, Faults, InputError, nearest
from ragsweep.core.plurals import counted, part_scored
from ragsweep.core.results import Result
from ragsweep.golden.text_files import read_lines
from ragsweep.report.tables import to_json, weighted_note
from ragsweep.report.writers.markdown import as_markdown
from ragsweep.stats import comparable
from ragsweep.stats import gate as rules
from ragsweep.stats.gate import EACH, GAIN, LEAST, MARGIN, MOST, Check, Condition, Scope
from ragsweep.stats.human_labels import RunLabels
from ragsweep.stats.inference.matrix import score_matrix, with_worst_cases
from ragsweep.stats.inference.slices import SMALL
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_run

LOST_POWER = (
    "needs more questions: with 500 hit-or-miss questions, margin .05 and equal configs, it passes in 50 % of cases,"
    " whereas the default test passes in 88 % of cases"
)  # benchmarks/results/designs-gates.json
CRITICAL = "critical"  # the label that marks the questions for --questions without a file

_ABOUT = """Decide whether a candidate may replace the baseline. Each condition must be shown with 95 % confidence: the
candidate is not worse in a metric by more than a margin, is better by a gain, or meets an absolute bound. pass: all
conditions are shown. fail: the opposite of a condition is shown. inconclusive: neither, because there are too few
questions. Runs on different golden sets or corpora are refused."""
_HELP = {
    MARGIN: """largest acceptable loss: ndcg_at_10=.02 in the metric's unit, or ndcg_at_10=5%% of the baseline's mean;
can be repeated; all must be met""",
    LEAST: """lower bound to be shown: context_recall=.70 for the mean (no baseline needed), or ndcg_at_10=+.02 for the
gain over the baseline""",
    MOST: "upper bound of the mean of a metric where lower is better: latency_mean_ms=300",
    "slice": """also check the questions with each value of this label (such as category); can be repeated. A
slice of fewer than 20 questions can only make the gate fail""",
    "questions": f"""only these questions: ids, one per line; without FILE, those with labels.{CRITICAL} true in the
golden set""",
    "each": """no single question may be worse by more than the margin. For a list of critical questions; no statistical
test is used, because the list is not a sample""",
    "anchor": """a second baseline, such as the first release: the candidate must pass against both, so that small
losses cannot accumulate over releases""",
    "sequential": f"""decide by an anytime-valid test (betting), for a golden set that grows between looks. The
probability of a false pass is at most 5 %% over any number of looks. The test {LOST_POWER.replace("%", "%%")}""",
}


def gate(arguments: Sequence[str]) -> int:
    """Run ``ragsweep gate``; return the exit status. Raises RagsweepError for bad input.

    The status is 0 for pass, 1 for fail, and 3 for inconclusive or for runs that are not comparable.
    """
    options = read(arguments)
    candidate = find_run(options.path, options.candidate)
    baseline = find_run(options.path, options.baseline) if options.baseline else None
    anchor = find_run(options.path, options.anchor) if options.anchor else None
    decision = decide(baseline, anchor, candidate, options)
    document = gate_document(decision)
    if options.json:
        write_document(options.json, to_json(document.facts) + "\n")
    if options.markdown:
        write_document(options.markdown, as_markdown(document))
    print_document(document)
    return EXIT_STATUS[decision.decision]


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command's options; raises ConfigError, with a one-line message, for invalid ones."""
    parser = Parser("ragsweep gate", description=_ABOUT)
    parser.add_argument("--baseline", metavar="RUN", help=RUN)
    parser.add_argument("--anchor", metavar="RUN", help=_HELP["anchor"])
    parser.add_argument("--candidate", required=True, metavar="RUN", help=RUN)
    for kind in (MARGIN, LEAST, MOST):
        option = f"--{kind.replace(' ', '-')}"
        parser.add_argument(option, action="append", default=[], metavar="METRIC=X", help=_HELP[kind])
    parser.add_argument("--slice", action="append", default=[], metavar="LABEL", help=_HELP["slice"])
    parser.add_argument("--questions", nargs="?", const="", metavar="FILE", help=_HELP["questions"])
    parser.add_argument("--labels", type=Path, metavar="FILE", help=LABELS)
    parser.add_argument("--each", action="store_true", help=_HELP["each"])
    parser.add_argument("--sequential", action="store_true", help=_HELP["sequential"])
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the decision as JSON")
    parser.add_argument("--markdown", type=output_file, metavar="FILE", help="write the decision as Markdown")
    add_path(parser)
    options = parser.parse_args(arguments)
    options.slice = list(dict.fromkeys(options.slice))
    typed = ((MARGIN, options.margin), (LEAST, options.at_least), (MOST, options.at_most))
    options.conditions = [read_condition(text, kind) for kind, texts in typed for text in texts]
    if not options.conditions:
        raise ConfigError("gate: needs a condition for the candidate: --margin, --at-least or --at-most METRIC=X")
    if options.anchor and options.baseline is None:
        raise ConfigError("--anchor: adds a second baseline, but the first is missing; add --baseline RUN")
    if options.baseline is None and (paired := [one for one in options.conditions if one.paired]):
        raise ConfigError(f"gate: the condition {paired[0]} needs a baseline; specify it with --baseline RUN")
    if options.each and any(one.kind != MARGIN for one in options.conditions):
        raise ConfigError("--each: applies to --margin only; use --at-least and --at-most in a separate command")
    if options.each and options.slice:
        raise ConfigError("--each and --slice: --each tests single questions, not slices; use only one of them")
    if options.anchor and not any(one.paired for one in options.conditions):
        raise ConfigError("--anchor: requires a condition on a difference: --margin METRIC=X or --at-least METRIC=+X")
    if options.each and options.labels:
        raise ConfigError("--each and --labels: labels correct means, but --each tests single questions; use only one")
    if options.sequential:
        _check_sequential(options)
    keys = [(one.metric, one.kind) for one in options.conditions]
    if twice := [key for n, key in enumerate(keys) if key in keys[:n]]:
        metric, kind = twice[0]
        option = (LEAST if kind == GAIN else kind).replace(" ", "-")
        raise ConfigError(f"--{option}: two values are given for {metric}; give one")
    return options


def _check_sequential(options: argparse.Namespace) -> None:
    for condition in options.conditions:
        if condition.relative:
            fact = f"{condition} is a share of a mean, which changes between looks"
            raise ConfigError(f"--sequential: {fact}; use a margin in the metric's unit")
    if options.each:
        raise ConfigError(
            "--sequential and --each: --sequential is a statistical test, but --each uses none; use only one of them"
        )
    if options.labels:
        fact = "labels cover a sample of the questions, but this test needs all"
        raise ConfigError(f"--sequential and --labels: {fact}; use only one of them")
    if options.questions is not None:
        fact = "each test must include all questions of earlier tests, which a list does not ensure"
        raise ConfigError(f"--sequential and --questions: {fact}; use only one of them")


def read_condition(text: str, kind: str = MARGIN) -> Condition:
    """Read ``METRIC=X`` (`MARGIN`: also ``X%``; `LEAST`: also ``+X``, a gain). Raises ConfigError for anything else."""
    metric, _, size = text.partition("=")
    relative = kind == MARGIN and size.endswith("%")
    try:
        number = float(size.removesuffix("%") if relative else size)
    except ValueError:
        number = math.nan
    if not metric or not math.isfinite(number) or (kind == MARGIN and number < 0):
        form = "METRIC=NUMBER, such as context_recall=.70"
        if kind == MARGIN:
            form = "METRIC=NUMBER or METRIC=NUMBER%, at least 0, such as ndcg_at_10=.02"
        raise ConfigError(f'--{kind.replace(" ", "-")}: "{text}" is invalid; write {form}')
    gain = kind == LEAST and size.startswith("+")
    return Condition(metric, number / 100 if relative else number, GAIN if gain else kind, relative)


def read_questions(path: Path, known: Collection[str]) -> list[str]:
    """Return the question ids in a file, one per line; lines that begin with # are comments.

    Raises InputError for a file that cannot be read or has no ids, and for ids that are not in ``known``.
    """
    faults, chosen = Faults(), dict[str, None]()
    for where, line in read_lines(path, faults):
        name = unicodedata.normalize("NFC", line.strip())
        if name.startswith("#"):
            continue
        if name not in known:
            near = nearest(name, known).partition(" known:")[0].rstrip(";")  # a golden set has too many ids to list
            faults.add(where, f'no question "{name}" was evaluated{near or ";"} correct or remove the id')
        chosen[name] = None
    faults.raise_any()
    if not chosen:
        raise InputError(f"{path}: contains no question ids; write one per line")
    return list(chosen)


def _listed(file: str, result: Result) -> list[str]:
    """Return the ids in a file or, if ``file`` is "", the critical questions; raises InputError if there are none."""
    if file:
        return read_questions(Path(file), set(map(str, result.questions["question_id"])))
    if not (listed := marked_questions(result)):
        way = "list ids with --questions FILE, or set this label in the golden set and run the compared configs again"
        raise InputError(f"--questions: no question's labels.{CRITICAL} is true; {way}")
    return listed


def marked_questions(result: Result) -> list[str]:
    """Return the ids of the questions marked as critical in the golden set."""
    marks = result.questions.get(CRITICAL, ())
    names = map(str, result.questions["question_id"])
    return [name for name, mark in zip(names, marks, strict=False) if str(mark).casefold() == "true"]


def decide(
    baseline: RecordedRun | None, anchor: RecordedRun | None, candidate: RecordedRun, options: argparse.Namespace
) -> GateDecision:
    """Decide whether the candidate meets all conditions: margins and gains against each baseline, and bounds.

    The gate passes if all relevant checks pass (see `Check.counts`), so no correction for multiple tests is needed (an
    intersection-union test: Berger, Technometrics 24, 1982). It fails if any of these checks fails, is refused for runs
    that are not comparable, and is otherwise inconclusive. Raises RagsweepError for unsuitable options.
    """
    before, after = (baseline or candidate).result, candidate.result
    baselines = {"baseline": before, **({"anchor": anchor.result} if anchor else {})}
    wanted = [one.metric for one in options.conditions]
    for name, one in baselines.items():
        try:
            comparable.check_same_questions(one, after)
            rules.check_same_coverage(one, after)
            for result in (one, after):
                comparable.check_whole(result)
                comparable.check_scored(result, wanted)
        except InputError as fault:
            reason = f"against the {name}: {fault}" if anchor else str(fault)
            return GateDecision("refused", baseline, candidate, anchor, options.sequential, reason=reason)
    metrics = comparable.shared_metrics([*baselines.values(), after], wanted, ())
    for condition in options.conditions:
        rules.check_direction(condition, after)
        compared = [*(baselines.values() if condition.paired else ()), after]
        rules.check_reachable(condition, after, known_bounds(compared, condition.metric))
    given = read_run_labels(options.labels, (before, after))
    check_labelled(given, metrics)
    for label in options.slice:
        if label not in before.summaries.groups or label not in before.questions:
            way = nearest(label, before.summaries.groups) or "; no label divides these questions: omit --slice"
            raise ConfigError(f'--slice: no label "{label}"{way}')
    ids = list(map(str, before.questions["question_id"]))
    chosen = set(ids if options.questions is None else _listed(options.questions, after))
    checks, notes = list[Check](), list[str]()
    for name, one in baselines.items():
        against = anchor if name == "anchor" else baseline
        people = RunLabels(given, [run.run for run in (against or candidate, candidate)])
        spreads = {metric: metric_range([one, after], metric) if options.sequential else None for metric in metrics}
        scope = partial(Scope, chosen, options.slice, options.each)
        scopes = {metric: scope(spreads[metric], people.of(metric)) for metric in metrics}
        conditions = [each for each in options.conditions if each.paired or one is before]
        found, said = _check_against(one, after, conditions, scopes)
        checks += [replace(check, against=name if check.condition.paired and anchor else "") for check in found]
        if baseline:
            said = [*_pair_notes(one, after, metrics), *said]
        notes += [f"{name}: {note}" for note in said] if anchor else said
    notes += [weighted] if (weighted := weighted_note(after, chosen)) and not options.each else []
    notes = list(dict.fromkeys([*notes, *_notes(checks, options.slice, len(chosen))]))
    if options.sequential and any(check.counts and check.found.decision == "inconclusive" for check in checks):
        notes.append(f"--sequential is valid at any look but {LOST_POWER}")
    decisions = {name: _overall([check for check in checks if check.against == name]) for name in baselines if anchor}
    paired = dict.fromkeys(one.metric for one in options.conditions if one.paired)
    whole = baseline is not None and len(chosen) == len(ids) and not given
    return GateDecision(
        _overall(checks), baseline, candidate, anchor, options.sequential, checks, comparable.factors(before, after),
        notes, questions=len(chosen), decisions=decisions,
        verdicts=pair_verdicts(options.path, baseline, candidate, paired) if whole and baseline else {},
    )  # fmt: skip


def _check_against(
    before: Result, after: Result, conditions: Sequence[Condition], scopes: Mapping[str, Scope]
) -> tuple[list[Check], list[str]]:
    checks, notes = list[Check](), list[str]()
    for condition in conditions:
        scope = scopes[condition.metric]
        filled = with_worst_cases(before if condition.paired else None, after, condition.metric)
        if worst := [name for name in filled.worst if name in scope.chosen]:
            listed = f"{len(worst)} ({rules.list_first(worst)})"
            notes.append(f"{condition.metric}: failed or declined, counted as the worst case: {listed}")
        if condition.paired and (note := score_matrix([before, filled.result], condition.metric).declined_note):
            notes.append(f"{condition.metric}: {note}")
        checks += rules.run_checks(condition, before, filled, scope)
    return checks, notes


def _pair_notes(before: Result, after: Result, metrics: Sequence[str]) -> Iterator[str]:
    if before.run.signature == after.run.signature:
        yield "both runs have the same config"
    if redefined := comparable.redefined_metrics(before, after, metrics):
        yield f"metrics not measured in the same way in both runs: {', '.join(redefined)}"


def _overall(checks: Sequence[Check]) -> Decision:
    decisions = {check.found.decision for check in checks if check.counts}
    return "fail" if "fail" in decisions else "inconclusive" if "inconclusive" in decisions else "pass"


def _notes(checks: Sequence[Check], labels: Sequence[str], chosen: int) -> Iterator[str]:
    for check in checks:
        yield from check.lost
        if check.label in ("", EACH) and chosen > check.found.questions:
            where = " in at least one config" if check.condition.paired else ""
            yield f"{check.name}: tested on {part_scored(check.found.questions, chosen, where)}"
    sliced = {(check.label, check.condition.metric) for check in checks}
    for label in labels:
        for metric in dict.fromkeys(check.condition.metric for check in checks):
            if (label, metric) not in sliced:
                yield f"{metric}: no question with a score has the label {label}, so there are no slices"
    yield from (f"{check.name}: {check.variance}" for check in checks if check.variance)
    yield from (correction(check, check.judged) for check in checks if check.judged)
    if any(check.judged for check in checks) and any(check.label for check in checks):
        yield "slices are not corrected: human labels correct only the checks on all questions"
    if small := sum(not check.counts for check in checks):
        yield f"ignored: {counted(small, 'slice')} of fewer than {SMALL} questions, where only a failure would count"
