"""Hydra plugin: find named sweeps from any folder."""
