"""The event log in a file: durable when `append` returns, shared by threads and processes."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from notifier.adapters.sqlite.connections_and_transactions import Database, WriteCombiner
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.log.consumer import FIRST_PAUSE, MAX_PAUSE, ConsumerIdentity, SqliteConsumer
from notifier.adapters.sqlite.log.log import SqliteLog, partitions
from notifier.domain.errors import DiskFull, LogUnavailable
from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.topics import MENTIONS
from tests.support.fakes.clock_and_nonces import START, ManualClock

NO_WAIT = timedelta(0)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    opened = Files.at(tmp_path)
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(files: Files, clock: ManualClock) -> Iterator[SqliteLog]:
    opened = SqliteLog(files.log, clock)
    yield opened
    opened.close()


def record(key: str, size: int = 1) -> Record:
    return Record(stream=MENTIONS, key=key, value=bytes(size))


def all_records(log: SqliteLog, group: str = "check") -> list[Logged]:
    consumer = log.subscribe(MENTIONS, group, "one")
    records: list[Logged] = []
    while polled := consumer.poll(100, NO_WAIT):
        records += polled
    consumer.close()
    return records


def test_concurrent_appends_keep_the_order_of_each_thread(log: SqliteLog) -> None:
    def append(thread: int) -> None:
        for n in range(40):
            log.append([Record(stream=MENTIONS, key=f"k{thread}", value=str(n).encode())])

    threads = [threading.Thread(target=append, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = all_records(log)
    for thread_number in range(8):
        values = [int(logged.record.value) for logged in records if logged.record.key == f"k{thread_number}"]
        assert values == list(range(40))


def append_and_wait(folder: Path, done: Connection) -> None:
    log = SqliteLog(Files.at(folder).log, ManualClock())
    log.append([record(f"k{n}") for n in range(10)])
    done.send("appended")
    signal.pause()


def test_appended_records_survive_process_death(files: Files, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    parent_end, child_end = context.Pipe()
    child = context.Process(target=append_and_wait, args=(tmp_path, child_end))
    child.start()
    assert parent_end.recv() == "appended"
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert len(all_records(SqliteLog(files.log, ManualClock()))) == 10


def test_records_and_commits_survive_restart(tmp_path: Path, files: Files, log: SqliteLog) -> None:
    log.append([record("a")] * 3)
    consumer = log.subscribe(MENTIONS, "router", "one")
    first = consumer.poll(1, NO_WAIT)
    consumer.commit({logged.partition: logged.offset for logged in first})
    consumer.close()
    log.close()
    reopened = SqliteLog(Files.at(tmp_path).log, ManualClock(START + timedelta(days=1)))
    reopened.append([record("a")])
    assert [logged.offset for logged in all_records(reopened, "router")] == [1, 2, 3]
    reopened.close()


def test_waiting_poll_wakes_on_append_by_another_thread(log: SqliteLog) -> None:
    consumer = log.subscribe(MENTIONS, "router", "one")
    assert list(consumer.poll(10, NO_WAIT)) == []
    appender = threading.Timer(0.05, log.append, ([record("a")],))
    appender.start()
    began = time.monotonic()
    assert len(consumer.poll(10, timedelta(seconds=30))) == 1
    assert time.monotonic() - began < 20
    appender.join()


def test_polling_slows_while_log_is_quiet(files: Files, log: SqliteLog, clock: ManualClock) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(seconds)

    wait = timedelta(milliseconds=200)
    identity = ConsumerIdentity(group="check", stream=MENTIONS, owner="one", partitions=partitions(MENTIONS))
    consumer = SqliteConsumer(files.log.relaxed(), clock, identity, sleep)
    while len(slept) < 100:
        assert consumer.poll(10, wait) == ()
    assert slept[0] == FIRST_PAUSE
    assert max(slept) == MAX_PAUSE
    assert slept.count(FIRST_PAUSE) == 1, "each poll starts again with the shortest pause"
    log.append([record("u1")])
    assert consumer.poll(10, wait)
    slept.clear()
    assert consumer.poll(10, wait) == ()
    assert slept[0] == FIRST_PAUSE
    consumer.close()


def test_full_disk_refuses_appends_until_space_is_freed(files: Files, log: SqliteLog) -> None:
    log.append([record("a")])
    with files.log.read() as c:
        [page_count] = c.execute("PRAGMA page_count").fetchone()
        c.execute(f"PRAGMA max_page_count = {page_count + 4}")
    with pytest.raises(DiskFull):
        log.append([record("b", 40_000)])
    assert len(all_records(log)) == 1
    with files.log.read() as c:
        c.execute("PRAGMA max_page_count = 100000")
    log.append([record("b", 40_000)])
    assert len(all_records(log, "another")) == 2


def test_locked_log_is_unavailable_until_released(files: Files) -> None:
    db = Database(files.log.path, unavailable_error=LogUnavailable, lock_timeout=timedelta(milliseconds=50))
    log = SqliteLog(db, ManualClock())
    with files.log.write(), pytest.raises(LogUnavailable):
        log.append([record("a")])
    log.append([record("b")])
    assert [logged.record.key for logged in all_records(log)] == ["b"]
    log.close()


def test_old_records_are_dropped_after_all_groups_commit(log: SqliteLog, clock: ManualClock) -> None:
    log.append([record("a")] * 3)
    router, auditor = log.subscribe(MENTIONS, "router", "one"), log.subscribe(MENTIONS, "auditor", "one")
    polled = router.poll(10, NO_WAIT)
    auditor.poll(10, NO_WAIT)
    router.commit({polled[-1].partition: polled[-1].offset})
    clock.advance(timedelta(days=1))
    assert log.drop_committed(before=clock.now()) == 0
    auditor.commit({polled[-1].partition: polled[1].offset})
    assert log.drop_committed(before=START) == 0
    assert log.drop_committed(before=clock.now()) == 2
    assert [logged.offset for logged in all_records(log, "newcomer")] == [2]


def test_offsets_continue_after_all_records_are_dropped(log: SqliteLog, clock: ManualClock) -> None:
    log.append([record("a")] * 3)
    router = log.subscribe(MENTIONS, "router", "one")
    polled = router.poll(10, NO_WAIT)
    router.commit({polled[-1].partition: polled[-1].offset})
    clock.advance(timedelta(seconds=1))
    assert log.drop_committed(before=clock.now()) == 3
    log.append([record("a")])
    assert [logged.offset for logged in router.poll(10, NO_WAIT)] == [3]


def test_cost_of_finding_old_records_is_independent_of_log_size(files: Files, log: SqliteLog) -> None:
    """The query holds the write lock, for which every accepted event waits."""

    def steps() -> int:
        costs = 0

        def count() -> None:
            nonlocal costs
            costs += 1

        with log._relaxed.write() as c:
            c.set_progress_handler(count, 100)
        log.drop_committed(before=START)
        with log._relaxed.write() as c:
            c.set_progress_handler(None, 0)
        return costs

    consumer = log.subscribe(MENTIONS, "router", "one")
    costs = []
    for _ in range(2):
        log.append([record("a")] * 5_000)
        while polled := consumer.poll(5_000, NO_WAIT):
            consumer.commit({logged.partition: logged.offset for logged in polled})
        costs.append(steps())
    assert costs[1] <= costs[0] * 1.1


def test_waiting_items_share_one_write_and_its_failure() -> None:
    batches: list[list[int]] = []
    first_write_started, rest_queued = threading.Event(), threading.Event()

    def write(items: Sequence[int]) -> None:
        batches.append(list(items))
        if 0 in items:
            first_write_started.set()
            rest_queued.wait(10)
        else:
            raise DiskFull("no room")

    combiner: WriteCombiner[int] = WriteCombiner(write)
    results: list[str] = []

    def call(n: int) -> None:
        try:
            combiner(n)
            results.append("written")
        except DiskFull:
            results.append("full")

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    threads[0].start()
    assert first_write_started.wait(10)
    for thread in threads[1:]:
        thread.start()
    while combiner.queued_count < 3:
        time.sleep(0.001)
    rest_queued.set()
    for thread in threads:
        thread.join()
    assert sorted(map(sorted, batches)) == [[0], [1, 2, 3]]
    assert sorted(results) == ["full", "full", "full", "written"]
