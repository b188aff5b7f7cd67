"""The traits of a part class: facts about its parameters and results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Protocol

from ragsweep.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class PartTraits:
    """The traits that a class declares as ``TRAITS: ClassVar[PartTraits] = PartTraits(version="1")``; all are optional.

    A subclass inherits the traits except ``version``; ``TRAITS = replace(Parent.TRAITS, version="1", ...)`` changes
    some of them.
    """

    version: str | None = None
    """Part of the addresses of results. None: a hash of the source (see ``building``) takes its place."""

    operational: frozenset[str] = frozenset()
    """Parameters that cannot change a result; addresses omit them."""

    search_only: frozenset[str] = frozenset()
    """Of an index: parameters that only ``search`` reads; a change does not rebuild it."""

    filtering: frozenset[str] = frozenset()
    """Of a retriever: {"min_score"} if the pipeline should drop chunks that score below this parameter."""

    bounds: tuple[float, float | None] | None = None
    """Of a retriever: lowest and highest possible score (highest None: unbounded); None: unknown."""

    weighing: frozenset[str] = frozenset()
    """Of a hybrid retriever: parameters that change the result of ``fuse`` but not its time, which is measured once."""

    reordering: frozenset[str] = frozenset()
    """Of a reranker: parameters that change only the use of the scores: "candidates", "min_score", "mix"."""

    needs_context: bool = False
    """Of a generator: it abstains without context."""

    silent: bool = False
    """Of a disabled llm, router, query or system: it is never called."""

    unread: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of a query writer: nested part -> its parameters that do not affect the query; addresses omit them."""

    skips_abstained: bool = False
    """Of a judged metric: abstentions are not judged (empty answers never are)."""

    languages: Sequence[str] = ()
    """Accepted values of ``language``, among which ``language: auto`` chooses; empty: any value is left as it is."""

    requires: Sequence[str] = ()
    """Of an external index: packages that a shipped model must install."""


class HasTraits(Protocol):
    """A part of any kind; without TRAITS it has the defaults (see ``traits_of``)."""

    if TYPE_CHECKING:  # no member at runtime: isinstance accepts a class without it
        TRAITS: ClassVar[PartTraits]


_FORMER = {one.name.upper(): one.name for one in fields(PartTraits)}
"""Class attribute that a field of TRAITS replaced -> the field."""


def traits_of(part: object, where: str = "") -> PartTraits:
    """Return the traits of a part or part class; the defaults if it declares none.

    ``where`` is its config key, for errors. Raises ConfigError if TRAITS is not a PartTraits, or if a class still uses
    former attributes such as VERSION.
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
