"""What became of a worker's go at a slice; the host acts on it, and knows no more."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    people: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Not now: the dispatcher will queue it again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    cause: str


Outcome = Done | Again | Dead
