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

from notifier.adapters.sqlite.connection import Database, Together
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.log.consumer import FIRST_PAUSE, LONGEST_PAUSE, Seat, SqliteConsumer
from notifier.adapters.sqlite.log.log import SqliteLog, partitions
from notifier.domain.errors import Full, LogUnavailable
from notifier.ports.event_log import Logged, Record
from notifier.topics import MENTIONS
from tests.support.fakes.clock import START, ManualClock

AT_ONCE = timedelta(0)


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


def all_of(log: SqliteLog, group: str = "check") -> list[Logged]:
    consumer = log.subscribe(MENTIONS, group, "one")
    found: list[Logged] = []
    while polled := consumer.poll(100, AT_ONCE):
        found += polled
    consumer.close()
    return found


def test_threads_that_append_at_once_keep_their_own_order_and_lose_nothing(log: SqliteLog) -> None:
    def append(thread: int) -> None:
        for n in range(40):
            log.append([Record(stream=MENTIONS, key=f"k{thread}", value=str(n).encode())])

    threads = [threading.Thread(target=append, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = all_of(log)
    for thread_number in range(8):
        values = [int(logged.record.value) for logged in found if logged.record.key == f"k{thread_number}"]
        assert values == list(range(40))


def append_and_wait(folder: Path, done: Connection) -> None:
    log = SqliteLog(Files.at(folder).log, ManualClock())
    log.append([record(f"k{n}") for n in range(10)])
    done.send("appended")
    signal.pause()


def test_what_was_appended_survives_the_death_of_the_process(files: Files, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=append_and_wait, args=(tmp_path, there))
    child.start()
    assert here.recv() == "appended"
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert len(all_of(SqliteLog(files.log, ManualClock()))) == 10


def test_records_commits_and_offsets_are_there_after_a_restart(tmp_path: Path, files: Files, log: SqliteLog) -> None:
    log.append([record("a")] * 3)
    consumer = log.subscribe(MENTIONS, "router", "one")
    first = consumer.poll(1, AT_ONCE)
    consumer.commit({logged.partition: logged.offset for logged in first})
    consumer.close()
    log.close()
    again = SqliteLog(Files.at(tmp_path).log, ManualClock(START + timedelta(days=1)))
    again.append([record("a")])
    assert [logged.offset for logged in all_of(again, "router")] == [1, 2, 3]
    again.close()


def test_a_poll_that_waits_wakes_up_when_another_thread_appends(log: SqliteLog) -> None:
    consumer = log.subscribe(MENTIONS, "router", "one")
    assert list(consumer.poll(10, AT_ONCE)) == []
    appender = threading.Timer(0.05, log.append, ([record("a")],))
    appender.start()
    assert len(consumer.poll(10, timedelta(seconds=30))) == 1
    appender.join()


def test_who_reads_a_quiet_log_looks_rarely_and_often_again_after_the_first_record(
    files: Files, log: SqliteLog, clock: ManualClock
) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(seconds)

    seat = Seat(group="check", stream=MENTIONS, owner="one", partitions=partitions(MENTIONS))
    consumer = SqliteConsumer(files.log.relaxed(), clock, seat, sleep)
    while len(slept) < 100:
        assert consumer.poll(10, timedelta(milliseconds=50)) == ()
    assert slept[0] == FIRST_PAUSE
    assert max(slept) == LONGEST_PAUSE
    assert slept.count(FIRST_PAUSE) == 1, "each poll begins to look as often as the first"
    log.append([record("u1")])
    assert consumer.poll(10, timedelta(milliseconds=50))
    slept.clear()
    assert consumer.poll(10, timedelta(milliseconds=50)) == ()
    assert slept[0] == FIRST_PAUSE
    consumer.close()


def test_a_full_disk_refuses_appends_and_takes_them_again_when_there_is_room(files: Files, log: SqliteLog) -> None:
    log.append([record("a")])
    with files.log.read() as c:
        [pages] = c.execute("PRAGMA page_count").fetchone()
        c.execute(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(Full):
        log.append([record("b", 40_000)])
    assert len(all_of(log)) == 1
    with files.log.read() as c:
        c.execute("PRAGMA max_page_count = 100000")
    log.append([record("b", 40_000)])
    assert len(all_of(log, "another")) == 2


def test_a_log_that_somebody_holds_is_unavailable_and_then_available(files: Files) -> None:
    db = Database(files.log.path, unavailable=LogUnavailable, waits=timedelta(milliseconds=50))
    log = SqliteLog(db, ManualClock())
    with files.log.write(), pytest.raises(LogUnavailable):
        log.append([record("a")])
    log.append([record("b")])
    assert [logged.record.key for logged in all_of(log)] == ["b"]
    log.close()


def test_old_records_are_dropped_only_when_every_group_is_done_with_them(log: SqliteLog, clock: ManualClock) -> None:
    log.append([record("a")] * 3)
    router, auditor = log.subscribe(MENTIONS, "router", "one"), log.subscribe(MENTIONS, "auditor", "one")
    polled = router.poll(10, AT_ONCE)
    auditor.poll(10, AT_ONCE)
    router.commit({polled[-1].partition: polled[-1].offset})
    clock.advance(timedelta(days=1))
    assert log.forget(before=clock.now()) == 0
    auditor.commit({polled[-1].partition: polled[1].offset})
    assert log.forget(before=START) == 0
    assert log.forget(before=clock.now()) == 2
    assert [logged.offset for logged in all_of(log, "newcomer")] == [2]


def test_offsets_rise_on_after_everything_was_dropped(log: SqliteLog, clock: ManualClock) -> None:
    log.append([record("a")] * 3)
    router = log.subscribe(MENTIONS, "router", "one")
    polled = router.poll(10, AT_ONCE)
    router.commit({polled[-1].partition: polled[-1].offset})
    clock.advance(timedelta(seconds=1))
    assert log.forget(before=clock.now()) == 3
    log.append([record("a")])
    assert [logged.offset for logged in router.poll(10, AT_ONCE)] == [3]


def test_looking_for_old_records_costs_the_same_however_long_the_log_is(files: Files, log: SqliteLog) -> None:
    """It holds the write lock, for which every 202 waits."""

    def steps() -> int:
        taken = 0

        def count() -> None:
            nonlocal taken
            taken += 1

        with log._relaxed.write() as c:
            c.set_progress_handler(count, 100)
        log.forget(before=START)
        with log._relaxed.write() as c:
            c.set_progress_handler(None, 0)
        return taken

    consumer = log.subscribe(MENTIONS, "router", "one")
    taken = []
    for _ in range(2):
        log.append([record("a")] * 5_000)
        while polled := consumer.poll(5_000, AT_ONCE):
            consumer.commit({logged.partition: logged.offset for logged in polled})
        taken.append(steps())
    assert taken[1] <= taken[0] * 1.1


def test_waiting_items_are_written_together_and_a_failure_is_told_to_each_of_them() -> None:
    batches: list[list[int]] = []
    first_is_writing, others_wait = threading.Event(), threading.Event()

    def write(items: Sequence[int]) -> None:
        batches.append(list(items))
        if 0 in items:
            first_is_writing.set()
            others_wait.wait(10)
        else:
            raise Full("no room")

    together: Together[int] = Together(write)
    told: list[str] = []

    def call(n: int) -> None:
        try:
            together(n)
            told.append("written")
        except Full:
            told.append("full")

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    threads[0].start()
    first_is_writing.wait(10)
    for thread in threads[1:]:
        thread.start()
    while together.waiting < 3:
        pass
    others_wait.set()
    for thread in threads:
        thread.join()
    assert sorted(map(sorted, batches)) == [[0], [1, 2, 3]]
    assert sorted(told) == ["full", "full", "full", "written"]
