"""Memoise functions whose arguments many configs share, such as questions, chunks and covered evidence."""

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

KEPT = 16
"""The maximum number of cached results per function; the oldest is evicted first."""

P = ParamSpec("P")
T = TypeVar("T")


def memoize_by_identity(function: Callable[P, T]) -> Callable[P, T]:
    """Memoise a pure function by the identity of its positional arguments, which must not be modified.

    Strings, bytes and integers are compared by value, all other arguments by identity. The arguments of a cached result
    are kept in memory.
    """
    known: deque[tuple[tuple[Any, ...], T]] = deque(maxlen=KEPT)

    @wraps(function)
    def recall(*args: P.args, **kwargs: P.kwargs) -> T:
        assert not kwargs, "arguments must be positional"
        for earlier, value in tuple(known):
            if len(earlier) == len(args) and all(map(_same, earlier, args)):
                return value
        value = function(*args, **kwargs)
        known.append((args, value))
        return value

    return recall


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str | int | bytes) and type(one) is type(other) and one == other)
