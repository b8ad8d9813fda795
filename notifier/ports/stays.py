"""The stays: who is in which set of the active, and until when. What the sets that workers read are made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.tiers import SetKind
from notifier.domain.fencing import Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    kind: SetKind
    until: int
    """The last hour, since 1970; FOREVER for what never ends."""
    shard: int
    bits: Bits


class Stays(Protocol):
    """Durable. Raises StoreUnavailable or Full, and Poison where a stored bitmap can't be read."""

    def standing(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        """All who stay in the set in this hour: together, whatever hour each of them ends in; by shard."""
        ...

    def until(self, kind: SetKind, hour: int, shards: Sequence[int]) -> Mapping[int, Bits]:
        """Those whose stay ends with this hour, as they were put."""
        ...

    def put(self, stays: Iterable[Stay], stamp: Stamp | None = None) -> None:
        """Replaces each, unless a later stamp stands there. What is put without one is an import's, which is before
        every stamp."""
        ...

    def forget(self, hour: int) -> None:
        """Those that ended before this hour. A store that forgets by itself does so two days later, or more."""
        ...
