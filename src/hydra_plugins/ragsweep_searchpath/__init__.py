"""Hydra plugin: named sweeps are found from any folder."""
