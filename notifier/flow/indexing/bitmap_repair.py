"""Mending: bitmaps that can't be read are made again from the rows, which whoever meets one asks for and waits for."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.tiers import SetKind, ShardSets
from notifier.domain.errors import Poison, StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.upstream.graph_changes import GraphRecord, rebuilds, shard_key
from notifier.domain.users.account_preferences import OF_OVERALLS
from notifier.domain.users.subject_preferences import OF_WANTS
from notifier.flow.indexing.bitmaps import stored
from notifier.ports.audience import MemberSets
from notifier.ports.clock import Clock
from notifier.ports.event_log import EventLog, Record

AGAIN_AFTER = timedelta(seconds=10)
"""A process asks again for the same shard: an indexer that is away isn't met by all tries of all slices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedSets:
    port: MemberSets
    log: EventLog
    clock: Clock
    due: dict[tuple[Subject, int], datetime] = field(default_factory=dict)
    """When a shard that was asked for is asked for again."""

    def live(self, subject: Subject, shards: Sequence[int], restricted_to: UserId | None = None) -> Sequence[ShardSets]:
        """As the sets have them. Raises StoreUnavailable, also for those that are being made again; and Poison where a
        bitmap can't be read that no rows give back, as of who was active.
        """
        try:
            return self.port.live(subject, shards, restricted_to)
        except Poison as poison:
            asked = [self._mend(owner, shards) for owner in _owners(subject, restricted_to)]
            if not any(asked):
                raise
            # Asked again, by whoever tries, until it is done: whoever died behind the asking is waited for by nobody.
            raise StoreUnavailable(f"It is made again: {poison}") from poison

    def _mend(self, owner: Subject, shards: Iterable[int]) -> Collection[int]:
        """Asks the indexer, the only one who writes them, for those that are damaged."""
        damaged, now = [shard for shard in shards if unreadable(self.port, owner, shard)], self.clock.now()
        if due := [shard for shard in damaged if self.due.get((owner, shard), now) <= now]:
            self.log.append(list(repairs(owner.owner, due)))
            self.due.update(dict.fromkeys(((owner, shard) for shard in due), now + AGAIN_AFTER))
        return damaged


def unreadable(sets: MemberSets, owner: Subject, shard: int) -> int:
    """How many of the bitmaps that rows give back can't be read: an account's, and everybody's of that shard."""
    own = [(kind, owner) for kind in (SetKind.FOLLOWERS, *OF_WANTS)]
    all_of_them = [*own, *((kind, None) for kind in OF_OVERALLS)]
    return sum(stored(sets, kind, of, shard) is None for kind, of in all_of_them)


def repairs(user: UserId, shards: Sequence[int]) -> Iterator[Record]:
    """What asks for an account's bitmaps of these shards, and for what everybody wants of everything there."""
    for rebuild in rebuilds(user, shards):
        yield Record(stream=topics.FOLLOWS, key=user, value=pack(GraphRecord(rebuild=rebuild)))
    for shard in shards:
        yield Record(stream=topics.FOLLOWS, key=shard_key(shard), value=pack(GraphRecord(everybody=shard)))


def _owners(subject: Subject, restricted_to: UserId | None) -> Iterator[Subject]:
    yield Subject(Kind.MENTION, subject.owner)
    if restricted_to is not None:
        yield Subject(Kind.MENTION, restricted_to)
