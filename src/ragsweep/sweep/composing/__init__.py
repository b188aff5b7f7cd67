"""Overrides to checked jobs: expand, compose, check."""
