"""Bitmaps that are wrong: whoever finds one asks the indexer, the only one who writes them, to make it again."""

from collections.abc import Sequence
from dataclasses import dataclass

from notifier import topics
from notifier.codec import pack
from notifier.domain.graph import GraphRecord, rebuilds, shard_key
from notifier.domain.subject import UserId
from notifier.ports.log import EventLog, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Mending:
    log: EventLog

    def __call__(self, user: UserId, shards: Sequence[int]) -> None:
        """Of the account's followers, and of everybody. Asked twice it is made twice, and is the same."""
        asked = [(user, GraphRecord(rebuild=rebuild)) for rebuild in rebuilds(user, shards)]
        asked += [(UserId(shard_key(shard)), GraphRecord(everybody=shard)) for shard in shards]
        self.log.append([Record(stream=topics.FOLLOWS, key=key, value=pack(record)) for key, record in asked])
