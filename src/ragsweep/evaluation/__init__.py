"""Turn one config into its graph of stages, and that into a score for every question."""
