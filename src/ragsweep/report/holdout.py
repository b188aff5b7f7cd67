"""Sentences on the use of the holdout, and on leads that shrink there."""

from collections.abc import Iterator

from ragsweep.golden.partition import HOLDOUT
from ragsweep.report.document import Statement
from ragsweep.report.naming import short
from ragsweep.report.numbers import signed
from ragsweep.stats.holdout_gap import Gap

SHORT_LIST = 10
"""Maximum number of configs on the holdout without a warning: choosing among more is a search."""


def holdout_use(views: int, configs: int = 1) -> Iterator[Statement]:
    """Describe how often the holdout was used, and warn about too many ``configs``; nothing if it was not used."""
    if views:
        times = {1: "once", 2: "twice"}.get(views, f"{views} times")
        way = "choose among them on the tune questions"
        many = f" {configs:,} configs are too many for the holdout: {way}." if configs > SHORT_LIST else ""
        text = f"The holdout was used {times}; each use that leads to a choice makes the next one less reliable.{many}"
        yield Statement("", text, {"views": views, "configs": configs})


def gap_line(gap: Gap | None) -> Iterator[Statement]:
    """Describe how much of the lead on the tune questions remains on the holdout; nothing if ``gap`` is None."""
    if gap is not None:
        change = f"{signed(gap.change)} [{signed(gap.low)}, {signed(gap.high)}]"
        config, over = (short(one.removesuffix(f" partition={HOLDOUT}")) for one in (gap.config, gap.over))
        leads = f"{signed(gap.tune)} over {over} there and leads by {signed(gap.holdout)} here"
        text = f"gap: {config}, the best on the tune questions, led by {leads}, a change of {change}"
        yield Statement("", text, gap._asdict())
