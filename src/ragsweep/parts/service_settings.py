"""Settings shared by the parts that call a service; most of them cannot change a result."""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar

from ragsweep.core.types import PartTraits
from ragsweep.services.endpoint import Endpoint
from ragsweep.services.http_client import Service
from ragsweep.services.thoughts import TAGS


@dataclass(eq=False, kw_only=True)
class ServiceSettings:
    """Settings with which a part calls its ``service``; see :class:`ragsweep.services.http_client.Service`.

    The part's ``__post_init__`` creates the service from ``call_settings``.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(operational=frozenset({"key_env", "timeout", "retries", "concurrency"}))
    KEY: ClassVar[str]  # the part's config key, for messages

    key_env: str | None = None
    timeout: float = 60
    retries: int = 5
    concurrency: int = 4
    service: Service = field(init=False, repr=False)

    def call_settings(self, *further: str) -> dict[str, Any]:
        """Return these settings, and those listed in ``further``, as keyword arguments of a Service."""
        return {name: getattr(self, name) for name in ("key_env", "timeout", "retries", "concurrency", *further)}

    def check(self) -> None:
        """Raise ConfigError for invalid values and for secrets in the config; makes no call."""
        self.service.check(self.KEY)

    def check_key(self) -> None:
        """Raise ConfigError if the key is not in the environment; makes no call."""
        self.service.check_key(self.KEY)


LIMITS = ("deadline", "requests_per_minute", "tokens_per_minute")
"""Settings of calls to a model, in addition to those of every service."""


@dataclass(eq=False)
class EndpointSettings(ServiceSettings):
    """Settings of calls to a model behind OpenAI's protocol; text within ``thoughts`` tags is removed from replies."""

    TRAITS = replace(ServiceSettings.TRAITS, operational=ServiceSettings.TRAITS.operational.union(LIMITS))

    base_url: str
    model: str
    _: KW_ONLY
    thoughts: list[str] | tuple[str, ...] | None = TAGS
    deadline: float | None = 300
    concurrency: int = 16
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    service: Endpoint = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Set up the service; makes no call."""
        self.service = Endpoint(self.base_url, self.model, thoughts=self.thoughts, **self.call_settings(*LIMITS))
