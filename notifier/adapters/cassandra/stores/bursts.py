"""The canonical bursts, their mentions, and what became of events.

A burst is in three tables: `bursts`, by (subject, run) with run = seq // 1024, holds it, and is the only one that says
how it stands; `burst_runs` has its run, with an `opened_at` that no burst of the run opened before, never null; and
`bursts_of_hour`, by the hour of its opening and the subject's part, leads to it. A burst that was re-stamped is left in
the hour and at the place of its former opening too: who comes by `bursts_of_hour` compares the burst's own `opened_at`
and passes over what differs, and over what leads to no burst.
A mention is in `mentions`, in the part that its event's id gives, and in `mention_ids`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter, itemgetter

from notifier.adapters.cassandra.driver.batching import TOGETHER, Row, batches, together
from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.adapters.cassandra.driver.statements import statement
from notifier.adapters.cassandra.schema.partitioning import (
    KEPT,
    PARTS,
    hour_of,
    part_of_event,
    part_of_subject,
    run_of,
    seconds_until,
)
from notifier.adapters.cassandra.stores.burst_changes import BurstChangeEntry, put_entries
from notifier.adapters.cassandra.stores.retractions import BLANK, CHANGE, PUT_TRAIL, blanks, changes, end_of, trails
from notifier.codec import pack, unpack
from notifier.codec.storage import from_ms, to_ms
from notifier.domain.bursts.burst import RETENTION, Burst, expires_at
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.moderation import MentionRefusal
from notifier.domain.bursts.sequencer import Head, Sequenced
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Subject, UserId
from notifier.ports.bursts import Outcome
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxPosition

_PUT = statement("put_burst")
_PUT_ID = statement("put_mention_id")
_RUN = "SELECT opened_at FROM burst_runs WHERE subject = ? AND run = ?"
# No TTL is bound to a run: the default, from its last burst on, is longer than any of its bursts has left.
_PUT_RUN = "INSERT INTO burst_runs (subject, run, opened_at) VALUES (?, ?, ?)"
_PUT_HOUR = "INSERT INTO bursts_of_hour (hour, part, opened_at, subject, seq) VALUES (?, ?, ?, ?, ?) USING TTL ?"
_PUT_MENTION = "INSERT INTO mentions (subject, seq, part, source, id, blob) VALUES (?, ?, ?, ?, ?, ?) USING TTL ?"
_REFUSE = "INSERT INTO mention_ids (id, source, account, subject, refusal) VALUES (?, ?, ?, '', ?) USING TTL ?"
_READ = "SELECT blob FROM bursts WHERE subject = ? AND run = ? AND seq = ?"
_KNOWN = "SELECT id FROM mention_ids WHERE id IN ? AND source = ? AND account = ? AND subject = ?"
_OUTCOMES = "SELECT source, account, subject, seq, refusal FROM mention_ids WHERE id = ?"
_OUTCOMES_OF_ONE = f"{_OUTCOMES} AND source = ?"

_PARTITION = itemgetter(0, 1, 2)
"""Of a mention: subject, seq and part."""

IDS_AT_ONCE = 16
"""In one question: most are unknown, which the nodes' Bloom filters answer for less than a question costs."""
PLACED = 4_096
"""Bursts that are remembered: a storm's grow for a minute."""

Life = int
"""Seconds."""
Found = tuple[str, str, str, int | None, str | None]
"""Source, account, subject, seq and refusal."""


class CassandraBursts:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._placed: dict[BurstKey, datetime] = {}

    def write(self, bursts: Sequence[Burst], mentions: Sequence[Sequenced], changed: Sequence[Sequenced] = ()) -> None:
        now = self._clock.now()
        kept = [(b, life) for b in bursts if (life := seconds_until(expires_at(b.opened_at), now)) > 0]
        opened = {burst.key: burst.opened_at for burst in bursts}
        lasting = [(s, life) for s in mentions if (life := seconds_until(end_of(s, opened), now)) > 0]
        # After a crash between any two lines: what leads to a burst that isn't there leads nowhere, and is passed over.
        # A burst that is there is found by all who look, and has its mentions, with the trails to them. The ids come
        # last: a mention is known only once its burst is readable. So does the change feed: whoever reads of a change
        # reads the burst as it is then. What is changed is written until it was.
        new = [(burst, life) for burst, life in kept if self._placed.get(burst.key) != burst.opened_at]
        by_part = groupby(sorted((_mention(s, life) for s, life in lasting), key=_PARTITION), _PARTITION)
        parts = [some for _, part in by_part for some in batches(part, TOGETHER)]
        paths = batches((trail for s, life in lasting for trail in trails(s, life)), TOGETHER)
        led = [(_PUT_MENTION, parts), (PUT_TRAIL, paths)]
        self._cluster.ask_all([*self._places(new), *(together(put, some) for put, rows in led for some in rows)])
        self._remember(burst for burst, _ in new)
        self._cluster.ask_each(_PUT, [_row(burst, life) for burst, life in kept])
        ids = ((_PUT_ID, _mention_id(sequenced, life)) for sequenced, life in lasting)
        put_entries(self._cluster, self._clock, [BurstChangeEntry.of(burst) for burst, _ in kept], ids)
        self._cluster.ask_each(CHANGE, changes(changed, bursts, now))
        self._cluster.ask_each(BLANK, blanks(changed, bursts, now))

    def read(self, keys: Collection[BurstKey]) -> Mapping[BurstKey, Burst]:
        found = self._cluster.ask_each(_READ, [(str(key.subject), run_of(key.seq), key.seq) for key in keys])
        return {burst.key: burst for burst in (unpack(Burst, blob) for rows in found for (blob,) in rows)}

    def known(self, events: Mapping[Subject, Collection[EventId]]) -> Mapping[Subject, Collection[EventId]]:
        asked = [
            (subject, source, ids)
            for subject, all_of_it in events.items()
            for source, some in groupby(sorted(all_of_it), key=attrgetter("source"))
            for ids in batches((event.id for event in some), IDS_AT_ONCE)
        ]
        rows = [(ids, source, subject.owner, str(subject)) for subject, source, ids in asked]
        known: dict[Subject, set[EventId]] = {subject: set() for subject in events}
        for (subject, source, _), found in zip(asked, self._cluster.ask_each(_KNOWN, rows), strict=True):
            known[subject] |= {EventId(source, id) for (id,) in found}
        return known

    def refuse(self, outcomes: Sequence[Outcome]) -> None:
        # A refusal says nothing of a time to count from: it is kept from now on. Of two the later stands, for both are
        # true of the record that they were made for.
        life = KEPT // timedelta(seconds=1)
        rows = [(o.event.id, o.event.source, o.account, o.refusal, life) for o in outcomes]
        self._cluster.ask_each(_REFUSE, rows)

    def outcomes(self, source: str | None, id: str) -> Sequence[Outcome]:
        rows = (
            self._cluster.ask(_OUTCOMES, (id,)) if source is None else self._cluster.ask(_OUTCOMES_OF_ONE, (id, source))
        )
        return [_outcome(id, tuple(row)) for row in rows]

    def _places(self, bursts: Sequence[tuple[Burst, Life]]) -> Iterator[tuple[str, Row]]:
        """In the run and in the hour. A burst that grows stays where it was placed, and both live as long as it does:
        who has placed it spares itself the read and the two writes with each of its mentions.
        """
        yield from ((_PUT_RUN, run) for run in self._runs(burst for burst, _ in bursts))
        yield from ((_PUT_HOUR, _place(burst, life)) for burst, life in bursts)

    def _remember(self, placed: Iterable[Burst]) -> None:
        if len(self._placed) > PLACED:
            self._placed.clear()
        self._placed |= {burst.key: burst.opened_at for burst in placed}

    def _runs(self, bursts: Iterable[Burst]) -> Sequence[tuple[str, int, int]]:
        """Each run with the earliest opening that is known of it: one that was re-stamped moved on from there.

        Read and then written, because those who publish bursts of a subject do so one after another, by its head.
        """
        begun: dict[tuple[str, int], int] = {}
        for burst in bursts:
            run = str(burst.key.subject), run_of(burst.key.seq)
            begun[run] = min(begun.get(run, to_ms(burst.opened_at)), to_ms(burst.opened_at))
        found = self._cluster.ask_each(_RUN, begun)
        return [
            (*run, min([at, *(before for (before,) in rows)]))
            for (run, at), rows in zip(begun.items(), found, strict=True)
        ]


def _place(burst: Burst, life: Life) -> tuple[object, ...]:
    subject, ms = burst.key.subject, to_ms(burst.opened_at)
    return hour_of(ms), part_of_subject(subject), ms, str(subject), burst.key.seq, life


def _row(burst: Burst, life: Life) -> tuple[object, ...]:
    key, opened_at, restricted_to = burst.key, to_ms(burst.opened_at), burst.restricted_to or ""
    row = str(key.subject), run_of(key.seq), key.seq, burst.version, opened_at, restricted_to, pack(burst)
    return *row, burst.version, life


def _mention(sequenced: Sequenced, life: Life) -> tuple[object, ...]:
    mention = sequenced.mention
    event = mention.event
    return str(mention.subject), sequenced.seq, part_of_event(event), event.source, event.id, pack(mention), life


def _mention_id(sequenced: Sequenced, life: Life) -> tuple[object, ...]:
    mention, seq = sequenced.mention, sequenced.seq
    event, subject = mention.event, mention.subject
    stamp = to_ms(mention.happened_at) * 1_000 - seq
    return event.id, event.source, subject.owner, str(subject), seq, stamp, life


def _outcome(id: str, found: Found) -> Outcome:
    source, account, subject, seq, refusal = found
    return Outcome(
        event=EventId(source, id),
        account=UserId(account),
        burst=None if seq is None else BurstKey(Subject.parse(subject), seq),
        refusal=None if refusal is None else MentionRefusal(refusal),
    )


# The bursts of all subjects, newest first: hour by hour, the parts of an hour merged, a few rows of each in memory.

_PAGE = statement("recent_bursts")
AHEAD = timedelta(hours=1)
"""A burst may be stamped a little after our now: by another machine's clock, or behind the one before it."""
LAST = (1 << 63) - 1
"""Behind every time that Cassandra can hold."""

RecentEntry = tuple[int, str, int]
"""Opening, subject and seq: in the order of places."""


class CassandraRecentBursts:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._bursts = CassandraBursts(cluster, clock)

    def since(self, moment: datetime, behind: InboxPosition | None, limit: int) -> Sequence[Burst]:
        entries = self._entries(moment, behind, limit)
        found: list[Burst] = []
        while len(found) < limit and (page := list(islice(entries, limit - len(found)))):
            found += self._standing(page)
        return found

    def _standing(self, page: Sequence[RecentEntry]) -> Sequence[Burst]:
        """Those that opened when the entry says so: one that was re-stamped has another entry."""
        places = [InboxPosition(from_ms(ms), BurstKey(Subject.parse(subject), seq)) for ms, subject, seq in page]
        bursts = self._bursts.read([place.burst for place in places])
        return [
            bursts[place.burst]
            for place in places
            if place.burst in bursts and bursts[place.burst].opened_at == place.opened_at
        ]

    def _entries(self, moment: datetime, behind: InboxPosition | None, limit: int) -> Iterator[RecentEntry]:
        now = self._clock.now()
        first, last = to_ms(max(moment, now - RETENTION)), to_ms(now + AHEAD)
        end = (LAST, "", 0)
        if behind is not None:
            end = to_ms(behind.opened_at), str(behind.burst.subject), behind.burst.seq
        for hour in range(hour_of(min(end[0], last)), hour_of(first) - 1, -1):
            yield from self._hour(hour, end, first, max(1, limit // PARTS))

    def _hour(self, hour: int, end: RecentEntry, first: int, size: int) -> Iterator[RecentEntry]:
        pages = self._cluster.ask_each(_PAGE, [(hour, part, *end, first, size) for part in range(PARTS)])
        parts = [self._part(hour, part, page, first, size) for part, page in enumerate(pages)]
        yield from merge(*parts, reverse=True)

    def _part(self, hour: int, part: int, page: Sequence[RecentEntry], first: int, size: int) -> Iterator[RecentEntry]:
        while page:
            yield from map(tuple, page)
            if len(page) < size:
                return
            page = self._cluster.ask(_PAGE, (hour, part, *page[-1], first, size))


# The heads: each is replaced only by the version that follows the stored one, decided by Paxos.

_LOAD = "SELECT blob FROM heads WHERE subject = ?"
_STORED = "SELECT version, nonce FROM heads WHERE subject = ?"
_FIRST = "INSERT INTO heads (version, nonce, published, blob, subject) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
_NEXT = "UPDATE heads SET version = ?, nonce = ?, published = ?, blob = ? WHERE subject = ? IF version = ?"
_UNPUBLISHED = "SELECT subject FROM heads WHERE published = false LIMIT ?"


class CassandraHeads:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        # At SERIAL, because what is decided next stands on it, and because this finishes a swap that was cut off.
        found = self._cluster.ask_each(_LOAD, [(str(subject),) for subject in subjects], profile=SERIAL)
        stored = {head.subject: head for head in (unpack(Head, blob) for rows in found for (blob,) in rows)}
        return {subject: stored.get(subject) or Head.fresh(subject) for subject in subjects}

    def swap(self, heads: Sequence[Head]) -> Sequence[bool]:
        swapped = self._cluster.decide_each(_swap(head) for head in heads)
        doubtful = [head for head, won in zip(heads, swapped, strict=True) if not won]
        found = self._cluster.ask_each(_STORED, [(str(head.subject),) for head in doubtful], profile=SERIAL)
        stored = {head.subject: tuple(rows[0]) if rows else (0, "") for head, rows in zip(doubtful, found, strict=True)}
        return [won or _is_ours(head, won, *stored[head.subject]) for head, won in zip(heads, swapped, strict=True)]

    def unpublished(self, limit: int) -> Sequence[Subject]:
        # A plain read of the index, which may miss a swap whose Paxos round was cut off. That hides no work for ever: a
        # swap that brings work is made for records of the log, which are read again until the swap has answered and
        # the work is done; whoever reads them loads the head at SERIAL, and that finishes the round. What it finds in
        # vain, because the swap that took the work off was cut off, whoever finishes the head loads at SERIAL as well.
        return [Subject.parse(subject) for (subject,) in self._cluster.ask(_UNPUBLISHED, (limit,))]


def _swap(head: Head) -> tuple[str, tuple[object, ...]]:
    row = (head.version, head.nonce, head.published, pack(head), str(head.subject))
    return (_FIRST, row) if head.version == 1 else (_NEXT, (*row, head.version - 1))


def _is_ours(head: Head, won: bool | None, version: int, nonce: str) -> bool:
    """Of a swap that was refused, or whose answer was lost, by what a read at SERIAL found after it.

    Nobody else makes this nonce. Once the version has come, a swap to it can take effect no more; before, one without
    an answer still might, however late, and nobody may say that it didn't.
    """
    if won is None and version < head.version:
        raise StoreUnavailable(f"Whether the head of {head.subject} was replaced isn't known yet.")
    return (version, nonce) == (head.version, head.nonce)
