from typing import NamedTuple


class Spot(NamedTuple):
    parent: str | None
    job: int
    adopt: str | None
