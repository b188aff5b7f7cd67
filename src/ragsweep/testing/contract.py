"""The base of all contracts: a clear failure if the part or the metric is missing or of the wrong kind."""

from typing import TYPE_CHECKING, Any

_ADVICE = {
    "part": "set part = YourClass, or define a method part that returns an instance",
    "metric": "set metric = YourMetric(), an instance",
}


class Contract:
    """Base of the contracts; subclasses set ``part`` or ``metric``, and a value of the wrong kind raises TypeError."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Check the ``part`` or ``metric`` that a class sets; a fixture of that name is not checked."""
        super().__init_subclass__(**arguments)
        part, metric = vars(cls).get("part"), vars(cls).get("metric")
        if part is not None and not callable(part) and not hasattr(type(part), "__get__"):
            raise TypeError(f"{cls.__name__}: part is an instance of {type(part).__name__}; {_ADVICE['part']}")
        if isinstance(metric, type):
            raise TypeError(f"{cls.__name__}: metric is a class; an instance is needed: metric = {metric.__name__}()")

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError for a missing attribute, with advice for ``part`` and ``metric``."""
            advice = _ADVICE.get(name, "the class neither sets nor inherits it")
            raise AttributeError(f"{type(self).__name__}.{name} is missing: {advice}", name=name, obj=self)
