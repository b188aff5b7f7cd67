"""Compute the shards of a stage on a Ray cluster's CPUs (or GPUs); one process receives and stores them."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from ragsweep.core.errors import ConfigError, RagsweepError, nearest
from ragsweep.stages.blobs import pack, unpack

KEY = "compute"
LOCAL, RAY = "local", "ray"

RETRIES = 3
"""Retries of a shard after its worker or node died."""

IN_FLIGHT = 2
"""Shards in flight per processor, so that no processor waits for this process."""


def check_compute(value: object, in_process: bool = True) -> None:
    """Raise ConfigError for an unknown value of ``compute``, and for "ray" where it is not available.

    ``in_process``: whether configs are evaluated in this process, as "ray" requires, not in jobs of hydra/launcher.
    """
    if value not in (LOCAL, RAY):
        raise ConfigError(f"{KEY}: must be local or ray, got {value!r}{nearest(str(value), (LOCAL, RAY))}")
    if value == RAY and not in_process:
        raise ConfigError(
            f"{KEY}=ray: shards would wait for processors taken by hydra/launcher's jobs; use {KEY}=local, or"
            " hydra/launcher=inline"
        )
    if value == RAY and find_spec("ray") is None:
        raise ConfigError(f"{KEY}=ray: ray is not installed; pip install 'ragsweep[ray]'")


class RayShards:
    """The workers of the cluster at RAY_ADDRESS, or of a new cluster on this machine.

    A worker gets one CPU (one thread), or one GPU if the cluster has any. It loads a part once, and returns each shard
    in the stored form, with checksums and address, which are verified on arrival.
    """

    def compute(
        self, make: Callable[[Any], Any], shards: Sequence[str], read: Callable[[str], Any], address: str, result: type
    ) -> Iterator[tuple[str, Any]]:
        """Yield the name and value of each shard as it is completed, in any order.

        Args:
            make: Computes a shard from its input; sent to each worker once.
            shards: Names of the shards.
            read: Returns the input of a shard, by name; called when the shard is submitted.
            address: Address of the node that the shards belong to.
            result: Type of a shard's value.
        """
        ray, kind = _connected()
        task = ray.remote(_compute).options(max_retries=RETRIES, **{f"num_{kind}s": 1})
        at_once = max(1, int(ray.cluster_resources().get(kind.upper(), 1))) * IN_FLIGHT
        part, waiting, running = ray.put(make), iter(shards), dict[Any, str]()

        def hand_out() -> None:
            for name in waiting:
                running[task.remote([part], read(name), f"{address}/{name}")] = name
                if len(running) >= at_once:
                    return

        try:
            hand_out()
            while running:
                (done,), _ = ray.wait(list(running), num_returns=1)
                name = running.pop(done)
                hand_out()
                yield name, unpack(_received(ray, done), f"{address}/{name}", result).value
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _connected() -> tuple[Any, str]:
    """Return ray, connected to a cluster, and the kind of processor that a worker gets."""
    import ray as library

    ray: Any = library
    if not ray.is_initialized():
        there = os.environ.get("RAY_ADDRESS", "local")  # otherwise Ray joins any cluster on this machine
        more = {"include_dashboard": False} if there == "local" else {}
        try:
            ray.init(there, log_to_driver=False, logging_level="error", **more)
        except (ConnectionError, ValueError) as fault:
            way = f"correct RAY_ADDRESS, or unset it to start a cluster here; {KEY}=local needs none"
            raise ConfigError(f"{KEY}=ray: no cluster at {there}: {fault}; {way}") from None
    return ray, "gpu" if ray.cluster_resources().get("GPU") else "cpu"


def _received(ray: Any, reference: Any) -> bytes:
    try:
        data: bytes = ray.get(reference)
    except ray.exceptions.RayTaskError as fault:
        raise (fault.cause if isinstance(fault.cause, RagsweepError) else fault) from None
    return data


def _compute(part: list[Any], given: Any, address: str) -> bytes:
    """Compute one shard in a worker."""
    return b"".join(pack(address, _loaded(part[0])(given)))


@lru_cache(1)
def _loaded(part: Any) -> Callable[[Any], Any]:
    """Return the part behind a Ray reference, which each worker process receives and loads only once."""
    import ray

    made: Callable[[Any], Any] = ray.get(part)
    return made
