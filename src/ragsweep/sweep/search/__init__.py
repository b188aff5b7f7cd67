"""A search with Optuna: space, samplers, trials shared by processes, early stop, and what came of it."""
