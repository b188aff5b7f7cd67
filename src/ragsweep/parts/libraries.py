"""The versions of the libraries on which the results of a part depend."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import ClassVar


class UsesLibraries:
    """Base class of parts whose results depend on the versions of ``LIBRARIES``, the names of Python packages."""

    LIBRARIES: ClassVar[Sequence[str]]

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of each library."""
        return versions(self.LIBRARIES)


def versions(libraries: Iterable[str]) -> dict[str, str]:
    """Map the name of each library to its installed version."""
    return {name: metadata.version(name) for name in libraries}
