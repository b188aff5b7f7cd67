"""Hydra plugin: the configs of this package are found from any folder."""
