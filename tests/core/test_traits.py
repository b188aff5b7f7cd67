"""Traits of parts: declared once, inherited except for the version, and never lost without an error."""

from dataclasses import fields, replace

import pytest

from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.traits import PartTraits, traits_of
from ragsweep.core.trust import TRUSTED
from ragsweep.core.types import TextRetriever

NAMES = [one.name for one in fields(PartTraits)]


class Plain:
    """Declare no traits."""

    def build(self, texts: list[str]) -> dict[str, object]:
        """Build nothing."""
        return {}

    def retrieve(self, index: object, queries: list[str], depth: int) -> None:
        """Find nothing."""


class Declared:
    """Declare traits."""

    TRAITS = PartTraits(version="1", operational=frozenset({"device"}))


def state(attribute: str, *bases: type) -> type:
    """Make a class that states a trait as versions before 0.3 read it."""
    return type("Former", bases, {attribute: ("value",)})


def test_traits_of_a_part_are_those_of_its_class_or_the_defaults() -> None:
    assert traits_of(Plain) == traits_of(Plain()) == PartTraits()
    assert isinstance(Plain(), TextRetriever)
    assert traits_of(Declared()) is traits_of(Declared) is Declared.TRAITS


def test_subclass_inherits_all_traits_but_the_version() -> None:
    assert traits_of(type("Inherits", (Declared,), {})) == replace(Declared.TRAITS, version=None)
    changed = type("Changes", (Declared,), {"TRAITS": replace(Declared.TRAITS, version="2")})
    assert traits_of(changed) == PartTraits(version="2", operational=frozenset({"device"}))


@pytest.mark.parametrize("name", NAMES)
def test_trait_stated_as_a_class_attribute_is_refused_with_its_replacement(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^x: Former declares .*: {name.upper()}; .* PartTraits\({name}=\('value',"):
        traits_of(state(name.upper()), "x")
    with pytest.raises(ConfigError, match=rf"^Former declares .* = replace\(Declared\.TRAITS, {name}="):
        traits_of(state(name.upper(), Declared)())


@pytest.mark.parametrize("name", NAMES)
def test_inherited_class_attribute_is_refused_unless_it_is_a_version(name: str) -> None:
    inherits = type("Inherits", (state(name.upper()),), {})
    if name == "version":  # of a library's class, perhaps; it was never inherited
        assert traits_of(inherits) == PartTraits()
    else:
        with pytest.raises(ConfigError, match=rf"Inherits declares .*: {name.upper()};"):
            traits_of(inherits)


def test_traits_of_another_type_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Wrong\.TRAITS must be a PartTraits, got \{'version': '1'\}"):
        traits_of(type("Wrong", (), {"TRAITS": {"version": "1"}}))


class Former:
    """State a version as versions before 0.3 read it."""

    VERSION = "2"

    def read(self, text: str) -> str:
        """Return the text."""
        return text


def test_part_with_former_attributes_is_refused_at_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUSTED, __name__)
    Builder().build({"_target_": f"{__name__}.Plain"}, "retriever")
    with pytest.raises(ConfigError, match=r"^task\.output: Former declares .*: VERSION; .*PartTraits\(version='2'\)"):
        Builder().build({"_target_": f"{__name__}.Former"}, "task.output")
