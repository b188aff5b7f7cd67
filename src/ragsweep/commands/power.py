"""``ragsweep power``: the smallest detectable difference, and the number of questions to detect a given one."""

import argparse
import math
from collections.abc import Sequence
from itertools import pairwise

from ragsweep.commands.command_line import METRIC, RUN, Parser, add_path, print_document, usual_metrics
from ragsweep.commands.comparison import find_family
from ragsweep.commands.power_report import is_repeat, plan_document, power_document
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.report.tables import Row
from ragsweep.stats.calibration import Noise, noise
from ragsweep.stats.comparable import check_same_questions, check_whole, shared_metrics
from ragsweep.stats.conclusion import Family
from ragsweep.stats.inference import planning
from ragsweep.stats.inference.cluster_errors import FEWEST, enough_clusters
from ragsweep.stats.inference.matrix import WEIGHT, has_ratios, score_matrix, transform_amounts
from ragsweep.stats.inference.planning import (
    MEASURED,
    Design,
    Planned,
    check_design,
    comparison_level,
    detectable_row,
    find_variation,
    paired,
    pilot_variation,
    plan_rows,
    worth_finding,
)
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_run

_ABOUT = """Show the smallest true difference between two configs that this golden set detects with 80 % power at 95 %
confidence, and the number of questions that a given difference needs. With two runs, the variance of differences over
questions is measured; with one run, it is assumed. The more configs are compared, the larger a difference must be to be
detected; their number is taken from the runs' sweep, or set by --configs. --repeat names other runs of the first
config with another replicate or seed, to measure how much its scores vary by chance. --questions plans a golden set
that is not annotated yet, from variances measured elsewhere or in a pilot RUN."""


def power(arguments: Sequence[str]) -> int:
    """Run ``ragsweep power``; return the exit status 0. Raises RagsweepError for bad input."""
    options = _read(arguments)
    if options.questions is not None:
        return _plan(options)
    runs = [find_run(options.path, run) for run in options.runs]
    repeats = [find_run(options.path, run) for run in options.repeat]
    if len(runs) == 2 and is_repeat(runs[0].result, runs[1].result):
        runs, repeats = runs[:1], [runs[1], *repeats]
    results = [run.result for run in (*runs, *repeats)]
    for result in results:
        check_same_questions(results[0], result)
        check_whole(result)
    metrics = shared_metrics(results, options.metric, usual_metrics(results))
    family = (None if options.configs else find_family(options.path, runs[0], runs[-1])) or Family([])
    compared = {metric: family.members(metric) for metric in metrics}
    counts = {metric: len(configs) for metric, configs in compared.items()}
    configs = options.configs or max(*counts.values(), 2) - 1
    repeated = [runs[0].result, *(run.result for run in repeats)]
    rows, floors = list[Row](), dict[str, Sequence[Noise]]()
    for metric in metrics:
        scores = pairwise(result.questions[metric] for result in repeated)
        floors[metric] = [noise(first, second, results[0].questions.get(WEIGHT)) for first, second in scores]
        level = comparison_level(compared[metric], metric, options.configs or 1, family.baseline or "")
        row = detectable_row([run.result for run in runs], metric, options.effect, level)
        rows.append({**row, "noise_floor": max((floor.of_the_mean for floor in floors[metric]), default=math.nan)})
    print_document(power_document(runs, repeats, rows, floors, configs, counts), options)
    return 0


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser("ragsweep power", description=_ABOUT)
    parser.add_argument("runs", nargs="*", metavar="RUN", help=RUN)
    parser.add_argument("--metric", action="append", help=METRIC)
    parser.add_argument(
        "--effect",
        type=float,
        metavar="X",
        help="difference to detect (default: .02, or 2%% of the mean of a metric with a unit)",
    )
    parser.add_argument(
        "--configs",
        type=int,
        metavar="N",
        help="number of configs that are compared with one (default: all of the runs' sweep; with --questions: 1)",
    )
    parser.add_argument("--repeat", action="append", default=[], metavar="RUN", help="another run of the first config")
    parser.add_argument("--questions", type=int, metavar="N", help="plan a golden set of N questions")
    parser.add_argument("--clusters", type=int, metavar="N", help="number of source documents of the planned questions")
    parser.add_argument("--cost-per-question", type=float, metavar="X", help="euros to annotate a question")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_path(parser)
    options = parser.parse_args(arguments)
    if len(options.runs) > 2:
        raise ConfigError(f"power: accepts one or two runs, got {len(options.runs)}; pass repetitions with --repeat")
    if not options.runs and options.questions is None:
        raise ConfigError("power: specify a RUN, or --questions N to plan a golden set before annotation")
    if options.questions is None and (options.clusters is not None or options.cost_per_question is not None):
        raise ConfigError("--clusters and --cost-per-question: require --questions N, because they describe a plan")
    if options.questions is not None and options.repeat:
        raise ConfigError("--repeat: cannot be combined with --questions, because a planned set has no repetitions")
    if options.cost_per_question is not None and not 0 <= options.cost_per_question < math.inf:
        raise ConfigError(f"--cost-per-question: must be at least 0 and finite, got {options.cost_per_question:g}")
    if options.effect is not None and not (options.effect > 0 and math.isfinite(options.effect)):
        raise ConfigError(f"--effect: must be above 0 and finite, got {options.effect:g}")
    if options.configs is not None and options.configs < 1:
        raise ConfigError(f"--configs: must be at least 1, got {options.configs}")
    return options


# --- plans -------------------------------------------------------------------------------------------------------


def _plan(options: argparse.Namespace) -> int:
    runs = [find_run(options.path, run) for run in options.runs]
    clusters = options.questions if options.clusters is None else options.clusters
    design = Design(options.questions, clusters, options.configs or 1)
    check_design(design)
    if runs:
        planned = _from_pilot(runs, options)
    else:
        measured = dict(find_variation(metric) for metric in options.metric or MEASURED)
        planned = [Planned(metric, one, options.effect or planning.EFFECT) for metric, one in measured.items()]
    rows = [row for one in planned for row in plan_rows(one, design, options.cost_per_question)]
    print_document(plan_document(runs, design, planned, rows, options.cost_per_question), options)
    return 0


def _from_pilot(runs: Sequence[RecordedRun], options: argparse.Namespace) -> list[Planned]:
    """Plan each metric from the pilot's variance; raises InputError if too few independent questions have scores."""
    results = [run.result for run in runs]
    for result in results:
        check_same_questions(results[0], result)
        check_whole(result)
    planned = []
    for metric in shared_metrics(results, options.metric, usual_metrics(results)):
        matrix, unit = score_matrix(results, metric), results[0].summaries.metrics[metric].unit
        if not enough_clusters(matrix.clusters, matrix.weights):
            raise InputError(
                f"{runs[0]}: fewer than {FEWEST} independent questions have a score for {metric}, too few for a pilot;"
                " to plan from the measured variances of other collections, omit RUN"
            )
        kind = "another config" if len(runs) == 1 else "such a change"
        effect = options.effect or worth_finding(matrix, unit)
        variation = pilot_variation(paired(transform_amounts(matrix, unit)), kind)
        mean = float(matrix.values[0].mean()) if has_ratios(matrix, unit) else None
        planned.append(Planned(metric, variation, effect, unit, mean))
    return planned
