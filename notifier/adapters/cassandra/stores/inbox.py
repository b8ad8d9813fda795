"""The inbox, written: bitmaps become messages by slicing; each row is told how long it lives."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from notifier.adapters.cassandra.bulk.encoding import Message, messages
from notifier.adapters.cassandra.bulk.writer import Bulk
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.adapters.cassandra.schema.partitioning import seconds_until
from notifier.domain.audience.inbox_rows import InboxRows
from notifier.domain.bursts.burst import expires_at
from notifier.ports.clock import Clock


class CassandraInbox:
    def __init__(self, cluster: Cluster, clock: Clock, bulk: Bulk | None = None) -> None:
        self._clock = clock
        self._bulk = bulk or Bulk(cluster)

    def write(self, rows: Sequence[InboxRows], going: Callable[[], None] = lambda: None) -> None:
        # Nobody reads half a slice wrongly: a row is a hint where to look, and its own mutation each range.
        if some := [one for one in rows if one.written and self._left(one) > 0]:
            self._bulk.send(self._messages(some, going))

    def sweep(self, now: datetime, limit: int) -> int:
        """Nothing to do: rows and seals were told when to end."""
        return 0

    def _messages(self, rows: Sequence[InboxRows], going: Callable[[], None]) -> Iterator[Message]:
        query_id = self._bulk.query_id()
        for one in rows:
            going()
            yield from messages(one, max(1, self._left(one)), query_id)

    def _left(self, rows: InboxRows) -> int:
        """Whole seconds to live. A row with none is left to the pull path: without TTL it would stay for ever."""
        return seconds_until(expires_at(rows.opened_at), self._clock.now())
