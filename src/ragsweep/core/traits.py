"""The traits of a part class: properties of its parameters and results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Protocol

from ragsweep.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class PartTraits:
    """The traits of a part class, declared in the class as ``TRAITS: ClassVar[PartTraits] = PartTraits(version="1")``.

    All traits are optional. A subclass inherits all traits except ``version``; to change some of them, it declares
    ``TRAITS = replace(Parent.TRAITS, version="1", ...)``.
    """

    version: str | None = None
    """Version of the class, a part of its results' addresses; if None, a hash of the source is used."""

    operational: frozenset[str] = frozenset()
    """Parameters that cannot change a result; the addresses of results do not depend on them."""

    search_only: frozenset[str] = frozenset()
    """Of an index: parameters that only ``search`` reads; changing them does not rebuild the index."""

    filtering: frozenset[str] = frozenset()
    """Of a retriever: {"min_score"} if the pipeline should drop chunks that score below this parameter."""

    bounds: tuple[float, float | None] | None = None
    """Of a retriever: the lowest and the highest possible score (None for no upper limit); None if both are unknown."""

    weighing: frozenset[str] = frozenset()
    """Of a hybrid retriever: parameters that change the result of ``fuse``, but not its latency."""

    reordering: frozenset[str] = frozenset()
    """Of a reranker: parameters that change only how its scores are used, any of "candidates", "min_score", "mix"."""

    needs_context: bool = False
    """Of a generator: true if it abstains when the context is empty."""

    silent: bool = False
    """Of an llm, router, query writer or system: true if the class represents its absence and is never called."""

    unread: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of a query writer: name of a nested part -> its parameters that cannot change the query; addresses omit them."""

    skips_abstained: bool = False
    """Of a judged metric: true if abstentions are not judged. Empty answers are never judged."""

    languages: Sequence[str] = ()
    """Values of ``language`` from which ``language: auto`` selects one; if empty, "auto" is not replaced."""

    requires: Sequence[str] = ()
    """Of an external index: names of the packages that a model exported by ``ragsweep ship`` requires."""

    def with_operational(self, *parameters: str) -> "PartTraits":
        """Return these traits with further operational parameters."""
        return replace(self, operational=self.operational.union(parameters))


class HasTraits(Protocol):
    """A part of any kind. A part without TRAITS has the default traits (see ``traits_of``)."""

    if TYPE_CHECKING:  # no member at runtime: isinstance accepts a class without it
        TRAITS: ClassVar[PartTraits]


_FORMER = {one.name.upper(): one.name for one in fields(PartTraits)}
"""Former class attribute -> the field of PartTraits that replaces it."""


def traits_of(part: object, where: str = "") -> PartTraits:
    """Return the traits of a part or part class; the default traits if the class neither declares nor inherits any.

    ``where`` is the config key of the part, for errors. Raises ConfigError if TRAITS is not a PartTraits, or if the
    class has a class attribute in place of a trait, such as VERSION.
    """
    made = part if isinstance(part, type) else type(part)
    try:
        return _declared(made)
    except ConfigError as fault:
        if not where:
            raise
        raise ConfigError(f"{where}: {fault}") from None


@cache
def _declared(made: type) -> PartTraits:
    found = getattr(made, "TRAITS", PartTraits())
    if not isinstance(found, PartTraits):
        raise ConfigError(f"{made.__qualname__}.TRAITS must be a PartTraits, got {found!r}")
    if former := [name for name in _FORMER if hasattr(made, name) and (name != "VERSION" or name in vars(made))]:
        raise ConfigError(_describe_former(made, former))
    return found if "TRAITS" in vars(made) else replace(found, version=None)


def _describe_former(made: type, former: Sequence[str]) -> str:
    values = ", ".join(f"{_FORMER[name]}={getattr(made, name)!r}" for name in former)
    parent = next((one.__name__ for one in made.__mro__[1:] if "TRAITS" in vars(one)), "")
    traits = f"replace({parent}.TRAITS, {values})" if parent else f"PartTraits({values})"
    return (
        f"{made.__qualname__} declares traits in class attributes that are no longer read: {', '.join(former)}; write"
        f" TRAITS = {traits} instead, with {'dataclasses.replace' if parent else 'ragsweep.core.types.PartTraits'}"
    )
