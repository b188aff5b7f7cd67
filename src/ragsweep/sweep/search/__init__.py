"""Search with Optuna: space, samplers, trials shared by processes, early stop, summary."""
