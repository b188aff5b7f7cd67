"""Settings shared by the parts that call a service."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from ragsweep.core.types import PartTraits
from ragsweep.services.endpoint import Endpoint
from ragsweep.services.http_client import Service
from ragsweep.services.thoughts import TAGS


@dataclass(eq=False, kw_only=True)
class ServiceSettings:
    """Base class of parts that call a service; see the settings in :mod:`ragsweep.services.http_client`.

    A subclass must set ``service`` in its ``__post_init__``, with the settings that ``call_settings`` returns.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(operational=frozenset({"key_env", "timeout", "retries", "concurrency"}))
    KEY: ClassVar[str]  # the config key of the part, for messages

    key_env: str | None = None
    timeout: float = 60
    retries: int = 5
    concurrency: int = 4
    service: Service = field(init=False, repr=False)

    def call_settings(self, *further: str) -> dict[str, Any]:
        """Return the settings of this class, and those named in ``further``, as keyword arguments of a Service."""
        return {name: getattr(self, name) for name in ("key_env", "timeout", "retries", "concurrency", *further)}

    def check(self) -> None:
        """Raise ConfigError for invalid values and for secrets in the config. No call is made."""
        self.service.check(self.KEY)

    def check_key(self) -> None:
        """Raise ConfigError as the method ``check_key`` of ``service`` does, for instance if the key is missing."""
        self.service.check_key(self.KEY)


LIMITS = ("deadline", "requests_per_minute", "tokens_per_minute")
"""Settings for calls to a model, in addition to the settings for any service."""


@dataclass(eq=False)
class EndpointSettings(ServiceSettings):
    """Base class of parts that call a model through OpenAI's protocol.

    Text within the tags named in ``thoughts`` is removed from replies; if ``thoughts`` is None, nothing is removed.
    """

    TRAITS = ServiceSettings.TRAITS.with_operational(*LIMITS)

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
        """Create the client of the service, without sending a request."""
        self.service = Endpoint(self.base_url, self.model, thoughts=self.thoughts, **self.call_settings(*LIMITS))
