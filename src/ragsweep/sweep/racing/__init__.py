"""Drop inferior configs early: the order of the questions, the rule, and the evaluation of a config on a rung."""

from ragsweep.sweep.racing.betting import Betting as Betting
