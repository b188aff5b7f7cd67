"""Generators answer questions from their context."""

from ragsweep.generators.extractive import Extractive
from ragsweep.generators.none import NoGenerator
from ragsweep.generators.openai import OpenAI
from ragsweep.generators.transformers import Transformers

__all__ = ["Extractive", "NoGenerator", "OpenAI", "Transformers"]
