"""Generators: answer questions from the passages of their context."""

from ragsweep.parts.generators.extractive import Extractive
from ragsweep.parts.generators.gguf import Gguf
from ragsweep.parts.generators.openai import OpenAI
from ragsweep.parts.generators.transformers import Transformers
from ragsweep.parts.generators.without_model import Baseline, NoGenerator
