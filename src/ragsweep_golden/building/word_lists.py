"""Read the words, patterns and templates of the question rules: one TOML file per language, and ``any``."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _lists(language: str) -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("rule_words", f"{language}.toml").read_text("utf-8"))


def texts(language: str, name: str) -> tuple[str, ...]:
    """Return a list of names or templates."""
    return tuple(_lists(language)[name])


def alternatives(language: str, name: str) -> str:
    """Return a list of patterns as one alternation for ``re``."""
    return "|".join(_lists(language)[name])


def word_set(language: str, name: str) -> frozenset[str]:
    """Return a list of words."""
    return frozenset(_lists(language)[name].split())


def base_forms(language: str) -> dict[str, str]:
    """Return the verbs of facts in the third person, and their base forms."""
    return dict(_lists(language)["bases"])
