"""Searches of a command: their directions, their plan, and their run."""
