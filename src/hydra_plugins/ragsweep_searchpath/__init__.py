"""The Hydra plugin that finds named sweeps from any working directory."""
