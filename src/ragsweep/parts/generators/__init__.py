"""Generators answer questions from their context."""

from ragsweep.parts.generators.baseline import Baseline
from ragsweep.parts.generators.extractive import Extractive
from ragsweep.parts.generators.gguf import Gguf
from ragsweep.parts.generators.none import NoGenerator
from ragsweep.parts.generators.openai import OpenAI
from ragsweep.parts.generators.transformers import Transformers
