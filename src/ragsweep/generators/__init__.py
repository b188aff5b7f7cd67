"""Generators answer questions from their context."""

from ragsweep.generators.openai import OpenAI

__all__ = ["OpenAI"]
