"""One history in three layouts: inbox rows, row per member, partition per member."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from benchmarks.cassandra.generated_history_and_bursts import InboxHistory
from benchmarks.cassandra.writers import BATCH, Delivery, DriverDefaults, Values, grouped, values
from notifier.adapters.cassandra import AsyncQueries, CassandraInbox, CassandraTimeline, Cluster
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.codec.messagepack import to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS, window_of
from notifier.domain.ids import Member

LIMIT = 20
READERS = 2 * BLOCK_MEMBERS
"""Number of readers: the first members, who have rows in every layout."""
PEOPLE = max(READERS, RANGE_MEMBERS)
"""All members of the ranges that contain the readers."""
ROWS_PER_BATCH = 500
"""Rows of one block in a batch."""

_TABLE = (Path(__file__).parent / "row_per_member_table.cql").read_text()
_INSERT = (
    "INSERT INTO member_rows (block, inbox_window, slot, opened_at, subject, seq, tier) "
    "VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?"
)
_OF_SLOT = (
    "SELECT opened_at, subject, seq, tier FROM member_rows "
    f"WHERE block = ? AND inbox_window = ? AND slot = ? LIMIT {LIMIT}"
)
_OF_MEMBER = (
    f"SELECT opened_at, subject, seq, tier FROM one_per_partition WHERE member = ? AND inbox_window = ? LIMIT {LIMIT}"
)

RowFound = tuple[int, str, int]
"""A row of a page: when the burst opened, its subject and number."""
Read = Callable[[Member], Awaitable[Sequence[RowFound]]]
"""Return a member's newest rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    name: str
    read: Read


def fill(cluster: Cluster, history: InboxHistory, windows: int, tell: Callable[[str], None]) -> None:
    """Write the history's inbox windows in every layout, the oldest window first."""
    inbox, stock = CassandraInbox(cluster, SystemClock()), DriverDefaults(cluster.access)
    try:
        stock.session.execute(_TABLE)
        of_member_rows = stock.session.prepare(_INSERT)
        for number, opened in enumerate(history.windows(SystemClock().now(), windows)):
            tell(f"filling inbox window {number + 1} of {windows}")
            rows = [rows for burst in opened for rows in burst.rows(RANGE_MEMBERS)]
            inbox.write(rows)
            deliveries = sorted((delivery for delivery in values(rows) if delivery[0] < READERS), key=itemgetter(0))
            stock.write(stock.insert, grouped(deliveries, BATCH))
            stock.write(of_member_rows, grouped([*_of_blocks(deliveries)], ROWS_PER_BATCH))
    finally:
        stock.close()


def layouts(cluster: Cluster, reader: AsyncQueries, history: InboxHistory, windows: int) -> Sequence[TableLayout]:
    """Return a reader for each layout. The last two query one inbox window after another until the page is full."""
    clock = SystemClock()
    timeline = CassandraTimeline(reader, clock)
    newest = window_of(clock.now())
    wanted = range(newest, newest - windows, -1)

    async def inbox_rows(member: Member) -> Sequence[RowFound]:
        rows = await timeline.rows(member, history.subjects(member), None, LIMIT)
        return [(to_ms(row.opened_at), str(row.burst.subject), row.burst.seq) for row in rows]

    async def member_rows(member: Member) -> Sequence[RowFound]:
        block, slot = divmod(member, BLOCK_MEMBERS)
        return await _newest(reader, _OF_SLOT, [(block, window, slot) for window in wanted])

    async def one_per_partition(member: Member) -> Sequence[RowFound]:
        return await _newest(reader, _OF_MEMBER, [(member, window) for window in wanted])

    return [TableLayout(name=read.__name__, read=read) for read in (inbox_rows, member_rows, one_per_partition)]


async def _newest(reader: AsyncQueries, statement: str, places: Sequence[Values]) -> Sequence[RowFound]:
    rows: list[RowFound] = []
    for place in places:
        rows += [(row.opened_at, row.subject, row.seq) for row in await reader(statement, place)]
        if len(rows) >= LIMIT:
            break
    return rows[:LIMIT]


def _of_blocks(deliveries: Sequence[Delivery]) -> Iterator[Values]:
    """Yield the same rows in the format of `member_rows`."""
    for member, window, *columns in deliveries:
        yield (member // BLOCK_MEMBERS, window, member % BLOCK_MEMBERS, *columns)
