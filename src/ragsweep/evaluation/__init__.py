"""Turns a config into its graph of stages, and the results into a score for every question."""
