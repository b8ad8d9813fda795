"""The member sets: followers, mutes, activity and the like, as bitmaps by shard."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.tiers import SetKind, ShardSets
from notifier.domain.delivery.plan import SetHead
from notifier.domain.fencing import Stamp
from notifier.domain.ids import Subject, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardBlob:
    kind: SetKind
    owner: Subject | None
    """None for the sets of everybody."""
    shard: int
    bits: Bits


class MemberSets(Protocol):
    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        """The sets that decide who the subject's audience is in each of these shards, as they stand now.

        Raises StoreUnavailable, or Poison where a stored bitmap can't be read.
        """
        ...

    def read(self, kind: SetKind, owner: Subject | None, shards: Sequence[int]) -> Mapping[int, Bits]:
        """One set in those of the shards in which it is stored. Raises as `live` does."""
        ...

    def head(self, subject: Subject) -> SetHead:
        """The follower counts; all zero for a subject that nobody follows."""
        ...

    def put(self, blobs: Iterable[ShardBlob], stamp: Stamp | None = None) -> None:
        """Replaces each named shard of each named set, unless a later stamp stands there.

        What is put without one is an import's, which is before every stamp.
        """
        ...

    def put_heads(self, heads: Mapping[Subject, SetHead], stamp: Stamp | None = None) -> None:
        """The same of the counts."""
        ...
