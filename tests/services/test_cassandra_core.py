"""What the core flow's adapters owe to Cassandra alone: answers that are lost, contenders, crashes between two writes,
and a life for every row.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut, WriteTimeout, WriteType

from notifier.adapters.cassandra import (
    Access,
    CassandraBursts,
    CassandraClaims,
    CassandraDeadLetters,
    CassandraHeads,
    CassandraLedger,
    CassandraRecentBursts,
    CassandraSent,
    CassandraThrottles,
    Cluster,
)
from notifier.adapters.cassandra.audit import entries
from notifier.adapters.cassandra.parts import PARTS
from notifier.domain.audience import Tier
from notifier.domain.burst import RETENTION, Burst
from notifier.domain.errors import StoreUnavailable
from notifier.domain.head import Head, Sequenced
from notifier.domain.ledger import Entry, Fact
from notifier.domain.reach import Refusal
from notifier.domain.subject import BurstKey, Kind, Subject, UserId
from notifier.domain.throttle import Throttle
from notifier.flow.walk import place_of
from notifier.ports.bursts import Outcome
from notifier.ports.deadletters import DeadLetter
from notifier.ports.push import Sending
from notifier.ports.timeline import Place
from notifier.testing.memory.clock import START, ManualClock
from services.jars import missing
from tests.contracts.keyspace import emptied, keyspace
from tests.contracts.made import EVENT, NOVA, ORION, burst, mention, piece, plan

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        bool(missing()), reason=f"the engines need Java 17 and Maven; not found: {', '.join(missing())}"
    ),
]

KEY = BurstKey(NOVA, 1)
TERM = timedelta(seconds=4)
FIRST = Head(subject=NOVA, version=1, nonce="one", applied={}, outbox=(burst(),))
PAUSE = Throttle(id="t1", tier=Tier.P2, rate=None, reason="disk", who="ada", starts_at=START, ends_at=START + TERM)
LOST = [
    OperationTimedOut(),
    WriteTimeout(
        "", consistency=ConsistencyLevel.SERIAL, required_responses=1, received_responses=0, write_type=WriteType.CAS
    ),
]


@pytest.fixture(scope="module")
def made(cassandra: Access) -> Iterator[Cluster]:
    with keyspace(cassandra) as cluster:
        yield cluster


@pytest.fixture
def cluster(made: Cluster) -> Cluster:
    return emptied(made)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class Losing(Cluster):
    """Loses the answer of the next statements that are conditional, or that name a table; they take effect, or not."""

    def __init__(self, cluster: Cluster, error: Exception, *, done: bool, at: str = " IF ", times: int = 1) -> None:
        super().__init__(cluster.access)
        self.shared = cluster
        self.error, self.done, self.at, self.times = error, done, at, times

    def session(self) -> Any:
        return LosingSession(self)

    def prepared(self, statement: str) -> Any:
        return self.shared.prepared(statement)

    def loses(self, statement: Any) -> bool:
        prepared = getattr(statement, "prepared_statement", statement)
        text = getattr(prepared, "query_string", "BATCH IF EACH")  # ours are all conditional
        if self.times == 0 or self.at not in " ".join(text.split()):
            return False
        self.times -= 1
        return True


class LosingSession:
    def __init__(self, losing: Losing) -> None:
        self.losing = losing
        self.real = losing.shared.session()

    def execute_async(self, statement: Any, *values: Any, **options: Any) -> Any:
        if not self.losing.loses(statement):
            return self.real.execute_async(statement, *values, **options)
        if self.losing.done:
            self.real.execute_async(statement, *values, **options).result()
        return LostAnswer(self.losing.error)

    def execute(self, statement: Any, *values: Any, **options: Any) -> Any:
        return self.execute_async(statement, *values, **options).result()


class LostAnswer:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def result(self) -> Any:
        raise self.error


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_swap_that_was_done_though_its_answer_was_lost_is_known_by_its_nonce(
    cluster: Cluster, error: Exception
) -> None:
    heads = CassandraHeads(cluster)
    assert CassandraHeads(Losing(cluster, error, done=True)).swap([FIRST]) == [True]
    second = replace(FIRST, version=2, nonce="two")
    orion = replace(FIRST, subject=ORION, nonce="o")
    assert CassandraHeads(Losing(cluster, error, done=True, times=2)).swap([second, orion]) == [True, True]
    assert heads.load([NOVA, ORION]) == {NOVA: second, ORION: orion}


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_swap_that_may_still_come_is_neither_won_nor_lost(cluster: Cluster, error: Exception) -> None:
    losing = CassandraHeads(Losing(cluster, error, done=False))
    with pytest.raises(StoreUnavailable):
        losing.swap([FIRST])
    assert CassandraHeads(cluster).load([NOVA]) == {NOVA: Head.fresh(NOVA)}
    assert losing.swap([FIRST]) == [True]


def test_a_swap_without_an_answer_is_lost_once_another_has_its_version(cluster: Cluster) -> None:
    heads = CassandraHeads(cluster)
    heads.swap([FIRST])
    late = replace(FIRST, nonce="late", seq=9)
    assert CassandraHeads(Losing(cluster, LOST[0], done=True)).swap([late]) == [False]
    assert heads.load([NOVA]) == {NOVA: FIRST}
    heads.swap([replace(FIRST, version=2, nonce="two")])
    assert CassandraHeads(Losing(cluster, LOST[0], done=False)).swap([FIRST]) == [False]


def test_of_sixteen_contenders_one_wins_each_version(cluster: Cluster) -> None:
    heads, versions = CassandraHeads(cluster), 12

    def contend(who: int) -> list[int]:
        won: list[int] = []
        while (head := heads.load([NOVA])[NOVA]).version < versions:
            mine = replace(head, version=head.version + 1, nonce=f"{who}/{head.version}")
            try:
                swapped = heads.swap([mine])
            except StoreUnavailable:  # not known yet, so it may be won: what the head says in the end decides
                swapped = [False]
            won += [mine.version] if swapped == [True] else []
        return won

    with ThreadPoolExecutor(16) as threads:
        won = sorted(version for each in threads.map(contend, range(16)) for version in each)
    assert len(won) == len(set(won))
    assert set(won) <= set(range(1, versions + 1))
    assert len(won) > versions // 2
    assert heads.load([NOVA])[NOVA].version == versions


def test_an_unfinished_head_is_found_without_its_name(cluster: Cluster) -> None:
    heads = CassandraHeads(cluster)
    heads.swap([replace(FIRST, subject=Subject(Kind.MENTION, UserId(f"s{n}"))) for n in range(300)])
    found = heads.unpublished(100)
    assert len(set(found)) == 100
    heads.swap([replace(FIRST, subject=s, version=2, nonce="two", outbox=()) for s in found])
    assert set(heads.unpublished(300)).isdisjoint(found)


@pytest.mark.parametrize("done", [True, False])
def test_a_claim_whose_answer_was_lost_is_ours_if_it_stands(cluster: Cluster, done: bool) -> None:
    claims, losing = CassandraClaims(cluster), CassandraClaims(Losing(cluster, LOST[1], done=done))
    if done:
        mine = losing.claim(piece(KEY), "one", START, START + TERM)
        assert mine is not None
        assert claims.renew(mine, START + 2 * TERM) is not None
    else:
        with pytest.raises(StoreUnavailable):
            losing.claim(piece(KEY), "one", START, START + TERM)
        assert claims.claim(piece(KEY), "two", START, START + TERM) is not None


@pytest.mark.parametrize("done", [True, False])
def test_a_renewal_whose_answer_was_lost_holds_only_if_it_stands(cluster: Cluster, done: bool) -> None:
    claims, losing = CassandraClaims(cluster), CassandraClaims(Losing(cluster, LOST[0], done=done))
    mine = claims.claim(piece(KEY), "one", START, START + TERM)
    assert mine is not None
    if done:
        assert losing.renew(mine, START + 2 * TERM) == replace(mine, until=START + 2 * TERM)
    else:
        with pytest.raises(StoreUnavailable):
            losing.renew(mine, START + 2 * TERM)
    after = claims.claim(piece(KEY), "two", START + TERM, START + 3 * TERM)
    assert (after is None) == done


def test_a_renewal_without_an_answer_is_lost_once_another_has_the_slice(cluster: Cluster) -> None:
    claims = CassandraClaims(cluster)
    mine = claims.claim(piece(KEY), "one", START, START + TERM)
    assert mine is not None
    claims.claim(piece(KEY), "two", START + TERM, START + 2 * TERM)
    assert CassandraClaims(Losing(cluster, LOST[0], done=True)).renew(mine, START + 3 * TERM) is None


def test_of_sixteen_workers_one_gets_the_slice(cluster: Cluster) -> None:
    claims = CassandraClaims(cluster)

    def claim(who: int) -> bool | None:
        try:
            return claims.claim(piece(KEY), f"w{who}", START, START + TERM) is not None
        except StoreUnavailable:
            return None

    with ThreadPoolExecutor(16) as threads:
        told = list(threads.map(claim, range(16)))
    assert told.count(True) <= 1
    assert told.count(True) == 1 or None in told
    assert claims.claim(piece(KEY), "late", START, START + TERM) is None


def cells(*shards: int) -> list[Entry]:
    return [Entry(slice=piece(KEY, shard=shard), fact=Fact.DISPATCHED, n=1, at=START) for shard in shards]


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_never_says_that_a_cell_was_anothers(cluster: Cluster, clock: ManualClock, done: bool) -> None:
    ledger = CassandraLedger(cluster, clock)
    ledger.plan([plan(KEY)])
    with pytest.raises(StoreUnavailable):
        CassandraLedger(Losing(cluster, LOST[0], done=done), clock).record(cells(0, 1))
    assert ledger.record(cells(0, 1)) == [not done, not done]


def test_of_an_accounts_cells_those_that_are_new_are_written(cluster: Cluster, clock: ManualClock) -> None:
    ledger = CassandraLedger(cluster, clock)
    ledger.plan([plan(KEY, shards=250)])
    assert ledger.record(cells(7, 120)) == [True, True]
    told = ledger.record(cells(*range(250)))
    assert [n for n, won in enumerate(told) if not won] == [7, 120]
    assert ledger.record(cells(*range(250))) == [False] * 250
    same = cells(251)[0]
    assert ledger.record([same, same]) == [True, False]


def test_a_burst_that_was_listed_by_one_who_died_before_the_plan_is_planned_by_the_next(
    cluster: Cluster, clock: ManualClock
) -> None:
    # The next finds another opening, because the head was re-stamped.
    with pytest.raises(StoreUnavailable):
        CassandraLedger(Losing(cluster, LOST[0], done=False), clock).plan([plan(KEY)])
    ledger = CassandraLedger(cluster, clock)
    assert (ledger.open(), ledger.read([KEY])) == ([KEY], {})
    restamped = plan(KEY, opened_at=START + timedelta(milliseconds=7))
    ledger.plan([restamped])
    assert ledger.read([KEY])[KEY].plan == restamped
    assert set(ledger.open()) == {KEY}
    ledger.close([KEY])
    assert list(ledger.open()) == []
    assert list(CassandraLedger(cluster, clock).open()) == []


def test_a_burst_is_listed_when_it_has_a_plan(cluster: Cluster, clock: ManualClock) -> None:
    with pytest.raises(StoreUnavailable):
        CassandraLedger(Losing(cluster, LOST[0], done=True), clock).plan([plan(KEY)])
    ledger = CassandraLedger(cluster, clock)
    assert ledger.read([KEY])[KEY].plan == plan(KEY)
    ledger.plan([plan(KEY)])
    assert list(ledger.open()) == [KEY]


def test_what_another_process_lists_is_found_wherever_it_opened(cluster: Cluster, clock: ManualClock) -> None:
    ledger, other = CassandraLedger(cluster, clock), CassandraLedger(cluster, clock)
    early, old = BurstKey(ORION, 1), START - timedelta(days=5)
    ledger.plan([plan(KEY)])
    assert list(ledger.open()) == [KEY]
    clock.advance(timedelta(hours=2))
    newer = BurstKey(NOVA, 2)
    other.plan([plan(newer, opened_at=clock.now())])
    assert list(ledger.open()) == [KEY, newer]
    other.plan([plan(early, opened_at=old)])
    looks = 1
    while early not in ledger.open():
        looks += 1
    assert looks <= 60
    assert list(ledger.open()) == [early, KEY, newer]
    ledger.close([early, newer])
    assert list(ledger.open()) == [KEY]


def test_a_mention_is_known_only_once_its_burst_is_readable(cluster: Cluster, clock: ManualClock) -> None:
    bursts, sequenced = CassandraBursts(cluster, clock), [Sequenced(mention=mention(), seq=1)]
    for table in ("burst_runs (", "bursts_of_hour (", "mentions (", "bursts ("):
        with pytest.raises(StoreUnavailable):
            CassandraBursts(Losing(cluster, LOST[0], done=False, at=f"INTO {table}"), clock).write([burst()], sequenced)
        assert not bursts.known(NOVA, [EVENT])
        assert bursts.read([KEY]) == {}
        assert CassandraRecentBursts(cluster, clock).since(START, None, 9) == []
    with pytest.raises(StoreUnavailable):
        CassandraBursts(Losing(cluster, LOST[0], done=False, at="INTO mention_ids ("), clock).write(
            [burst()], sequenced
        )
    assert not bursts.known(NOVA, [EVENT])
    assert bursts.read([KEY]) == {KEY: burst()}
    bursts.write([burst()], sequenced)
    assert set(bursts.known(NOVA, [EVENT])) == {EVENT}


def test_an_event_keeps_its_first_burst_though_the_second_was_written_before(
    cluster: Cluster, clock: ManualClock
) -> None:
    bursts = CassandraBursts(cluster, clock)
    for seq in (2, 1, 3):
        bursts.write([burst(seq=seq)], [Sequenced(mention=mention(), seq=seq)])
    assert [outcome.burst for outcome in bursts.outcomes(None, EVENT.id)] == [KEY]


def test_a_run_never_begins_after_any_of_its_bursts(cluster: Cluster, clock: ManualClock) -> None:
    bursts, second = CassandraBursts(cluster, clock), timedelta(seconds=1)
    bursts.write([burst(seq=1, opened_at=START), burst(seq=1_024, opened_at=START + 3 * second)], [])
    bursts.write([burst(seq=2, opened_at=START + second), burst(seq=1, version=2, opened_at=START + 2 * second)], [])
    found = cluster.execute("SELECT run, opened_at FROM burst_runs WHERE subject = %s", (str(NOVA),))
    start = int(START.timestamp() * 1_000)
    assert [tuple(row) for row in found] == [(1, start + 3_000), (0, start)]


def test_recent_bursts_of_many_subjects_come_in_order_over_hours_and_pages(
    cluster: Cluster, clock: ManualClock
) -> None:
    clock.advance(timedelta(hours=5))
    bursts, recent = CassandraBursts(cluster, clock), CassandraRecentBursts(cluster, clock)
    owners = [Subject(Kind.MENTION, UserId(f"s{n % 40}")) for n in range(400)]
    written = [burst(owner, n, opened_at=START + n * timedelta(seconds=40)) for n, owner in enumerate(owners)]
    bursts.write(written, [])
    moved = replace(written[200], version=2, opened_at=START + timedelta(hours=4.9))
    bursts.write([moved], [])
    expected = [moved, *(b for b in reversed(written) if b.key != moved.key)]
    for limit in (7, 64, 1_000):
        found: list[Burst] = []
        behind: Place | None = None
        while page := recent.since(START, behind, limit):
            assert len(page) <= limit
            found += page
            behind = place_of(page[-1])
        assert found == expected


def test_what_is_older_than_the_retention_is_not_written(cluster: Cluster, clock: ManualClock) -> None:
    bursts = CassandraBursts(cluster, clock)
    bursts.write([burst(opened_at=START - RETENTION), burst(ORION, opened_at=START - RETENTION + TERM)], [])
    assert set(bursts.read([KEY, BurstKey(ORION, 1)])) == {BurstKey(ORION, 1)}


LIVES: dict[str, Sequence[str]] = {
    "bursts": ["version", "opened_at", "restricted_to", "blob"],
    "burst_runs": ["opened_at"],
    "mentions": ["blob"],
    "slices": ["at", "people", "rows", "note"],
    "claims": ["attempt", "owner", "claimed_at", "until", "reached"],
    "plans": ["blob"],
    "sent": ["sent"],
    "throttles": ["tier", "rate", "reason", "who", "starts_at", "ends_at"],
    "dead_letters": ["stage", "cause", "body", "at"],
}
"""Tables whose rows have cells, of which every one is always there."""
KEYS_ALONE = {"bursts_of_hour", "open_bursts", "dead_letters_of_day"}


def test_every_row_ends_some_day(cluster: Cluster, clock: ManualClock) -> None:
    bursts, ledger, claims = CassandraBursts(cluster, clock), CassandraLedger(cluster, clock), CassandraClaims(cluster)
    bursts.write([burst()], [Sequenced(mention=mention(), seq=1)])
    bursts.refuse([Outcome(event=EVENT, account=UserId("zoe"), burst=None, refusal=Refusal.DENIED)])
    ledger.plan([plan(KEY)])
    ledger.record(cells(0, 1))
    claim = claims.claim(piece(KEY), "one", START, START + TERM)
    assert claim is not None
    claims.renew(claim, START + 2 * TERM)
    claims.claim(piece(KEY), "two", START + 2 * TERM, START + 3 * TERM)
    window = Sending(burst=KEY, tier=Tier.P1, shard=3)
    CassandraSent(cluster).intend(window)
    CassandraSent(cluster).outcome(window, 12)
    CassandraThrottles(cluster, clock).put(PAUSE)
    CassandraThrottles(cluster, clock).put(replace(PAUSE, rate=7.5))
    CassandraThrottles(cluster, clock).lift(PAUSE.id, "bob", START + TERM / 2)
    CassandraDeadLetters(cluster, clock).put(DeadLetter(id="x", stage="s", cause="c", body=b"b", at=START))
    for table, columns in LIVES.items():
        lives = cluster.execute(f"SELECT {', '.join(f'TTL({column})' for column in columns)} FROM {table}")
        assert lives, table
        for row in lives:
            assert all(life is not None and life > 7 * 86_400 for life in row), (table, row)
    for seq_life, refusal_life in cluster.execute("SELECT TTL(seq), TTL(refusal) FROM mention_ids"):
        assert (seq_life is None) != (refusal_life is None)
    defaults = "SELECT table_name, default_time_to_live FROM system_schema.tables WHERE keyspace_name = %s"
    found = dict(cluster.execute(defaults, (cluster.access.keyspace,)))
    assert all(found[table] > 0 for table in KEYS_ALONE)


def test_a_burst_lives_as_long_as_it_may_and_what_hangs_on_it_a_day_longer(
    cluster: Cluster, clock: ManualClock
) -> None:
    clock.advance(timedelta(days=30))
    CassandraBursts(cluster, clock).write([burst()], [Sequenced(mention=mention(), seq=1)])
    CassandraLedger(cluster, clock).plan([plan(KEY)])
    for table, column, days in (("bursts", "blob", 60), ("mentions", "blob", 61), ("mention_ids", "seq", 61)):
        [[life]] = cluster.execute(f"SELECT TTL({column}) FROM {table}")
        assert days * 86_400 - 60 <= life <= days * 86_400


def told(cluster: Cluster) -> list[tuple[str, str, bool]]:
    return [
        (entry["who"], entry["what"], good) for entry, good in ((json.loads(b), good) for b, good in entries(cluster))
    ]


def test_every_change_of_a_throttle_is_in_the_audit_with_who_did_it(cluster: Cluster, clock: ManualClock) -> None:
    throttles = CassandraThrottles(cluster, clock)
    throttles.put(PAUSE)
    throttles.lift("t1", "bob", START + TERM / 2)
    throttles.lift("t1", "eve", START + TERM / 2)
    assert told(cluster) == [("ada", "throttle.put", True), ("bob", "throttle.lift", True)]


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE audit SET body = 0x00 WHERE book = 'audit' AND number = 1",
        "DELETE FROM audit WHERE book = 'audit' AND number = 1",
        "UPDATE audit SET hash = 0x00 WHERE book = 'audit' AND number = 2",
    ],
)
def test_an_audit_that_was_tampered_with_shows(cluster: Cluster, clock: ManualClock, tamper: str) -> None:
    for id in ("t1", "t2", "t3"):
        CassandraThrottles(cluster, clock).put(replace(PAUSE, id=id))
    assert all(good for _, good in entries(cluster))
    # Conditional, as a plain write could lose by its clock to what was decided before.
    assert cluster.execute(f"{tamper} IF EXISTS")[0].applied
    assert not all(good for _, good in entries(cluster))


@pytest.mark.parametrize("done", [True, False])
def test_no_throttle_is_set_whose_audit_row_is_not_known_to_stand(
    cluster: Cluster, clock: ManualClock, done: bool
) -> None:
    throttles = CassandraThrottles(Losing(cluster, LOST[0], done=done, at="INTO audit"), clock)
    if done:
        throttles.put(PAUSE)
        assert (len(told(cluster)), list(throttles.since(START))) == (1, [PAUSE])
    else:
        with pytest.raises(StoreUnavailable):
            throttles.put(PAUSE)
        assert (told(cluster), list(throttles.since(START))) == ([], [])


@pytest.mark.parametrize("done", [True, False])
def test_a_throttle_whose_answer_was_lost_is_set_if_it_stands(cluster: Cluster, clock: ManualClock, done: bool) -> None:
    throttles = CassandraThrottles(Losing(cluster, LOST[0], done=done, at="INTO throttles"), clock)
    if done:
        throttles.put(PAUSE)
    else:
        with pytest.raises(StoreUnavailable):
            throttles.put(PAUSE)
    assert list(throttles.since(START)) == ([PAUSE] if done else [])
    assert told(cluster) == [("ada", "throttle.put", True)]


def test_operators_at_the_same_moment_are_one_after_another_in_the_audit(cluster: Cluster, clock: ManualClock) -> None:
    throttles = CassandraThrottles(cluster, clock)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(throttles.put, [replace(PAUSE, id=f"t{n}") for n in range(8)]))
    assert [good for _, good in entries(cluster)] == [True] * 8
    assert len(throttles.since(START)) == 8


def test_a_letter_whose_line_was_lost_is_listed_when_it_is_put_again(cluster: Cluster, clock: ManualClock) -> None:
    letters = CassandraDeadLetters(cluster, clock)
    letter = DeadLetter(id="mentions/0#7", stage="router", cause="not a Mention", body=b"\0", at=START)
    with pytest.raises(StoreUnavailable):
        CassandraDeadLetters(Losing(cluster, LOST[0], done=False, at="INTO dead_letters_of_day"), clock).put(letter)
    assert letters.list(9) == []
    letters.put(replace(letter, at=START + timedelta(days=1)))
    assert letters.list(9) == [letter]


def test_a_mention_lies_in_one_of_its_parts(cluster: Cluster, clock: ManualClock) -> None:
    many = [Sequenced(mention=replace(mention(), event=replace(EVENT, id=f"e{n}")), seq=1) for n in range(200)]
    CassandraBursts(cluster, clock).write([burst()], many)
    found = cluster.execute("SELECT part, id FROM mentions")
    assert len(found) == 200
    assert {part for part, _ in found} == set(range(PARTS))
