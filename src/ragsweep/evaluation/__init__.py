"""Turn a config into its graph of stages, and the results of the stages into a score for every question."""
