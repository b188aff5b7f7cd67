"""Drop inferior configs early: the order of questions, the rule, and one config on a rung."""

from ragsweep.sweep.racing.betting import Betting as Betting
