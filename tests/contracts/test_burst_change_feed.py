"""The change feed of bursts: a reader never misses a written burst."""

from asyncio import run
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.sequencer import SequencedMention
from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.ports.inbox_cache_freshness import MAX_CHANGED_BURSTS, FeedPosition
from tests.contracts.change_feed_reader import FeedReader
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, burst, mention
from tests.support.fakes.clock_and_nonces import START

LATER = timedelta(seconds=10)
"""After this time, a new reader receives no repeated writes."""


def test_feed_is_empty_until_burst_is_written(store: Store) -> None:
    reader = FeedReader(store.changes)
    assert reader.read() == []
    store.bursts.write([], [])
    assert reader.read() == []
    assert reader.lapse_count == 0


def test_each_kind_of_write_is_returned_once(store: Store) -> None:
    reader = FeedReader(store.changes)
    opened, grown = burst(version=1), replace(burst(version=2), count=2)
    retracted = replace(burst(version=3), count=0, text="", silent=True)
    moved = burst(version=4, opened_at=START + timedelta(seconds=1))
    for version in (opened, grown, retracted, moved):
        store.bursts.write([version], [])
        assert reader.read() == [version]
        assert reader.read() == []


def test_burst_changed_twice_is_returned_once_in_newest_state(store: Store) -> None:
    reader = FeedReader(store.changes)
    other_burst, grown = burst(ORION), burst(version=2, text="grown")
    for version in (burst(), other_burst, grown):
        store.bursts.write([version], [])
        store.clock.advance(timedelta(milliseconds=1))
    assert reader.read() == [other_burst, grown]
    assert reader.read() == []


def test_late_older_version_does_not_hide_newer(store: Store) -> None:
    reader = FeedReader(store.changes)
    newer = burst(version=5, text="new")
    store.bursts.write([newer], [])
    store.bursts.write([burst(version=4, text="old")], [])
    assert reader.read() == [newer]


def test_burst_is_returned_when_its_mentions_change(store: Store) -> None:
    store.bursts.write([burst()], [SequencedMention(mention=mention(), seq=1)])
    reader = FeedReader(store.changes)
    reader.read()
    changed = replace(burst(version=2), count=0)
    store.bursts.write([changed], [], [SequencedMention(mention=replace(mention(), text=""), seq=1)])
    assert reader.read() == [changed]


def test_write_of_another_process_is_returned(store: Store) -> None:
    reader = FeedReader(store.changes)
    with reopened(store) as other_process:
        other_process.bursts.write([burst()], [])
    assert reader.read() == [burst()]


def test_new_reader_begins_at_the_end(store: Store) -> None:
    store.bursts.write([burst()], [])
    store.clock.advance(LATER)
    reader = FeedReader(store.changes)
    assert reader.read() == []
    store.bursts.write([burst(ORION)], [])
    assert reader.read() == [burst(ORION)]


def test_readers_do_not_disturb_each_other(store: Store) -> None:
    early = FeedReader(store.changes)
    store.bursts.write([burst()], [])
    assert early.read() == [burst()]
    store.clock.advance(LATER)
    late = FeedReader(store.changes)
    store.bursts.write([burst(ORION)], [])
    assert early.read() == late.read() == [burst(ORION)]


def test_position_can_be_reused(store: Store) -> None:
    reader = FeedReader(store.changes)
    start = reader.position
    store.bursts.write([burst()], [])
    assert reader.read() == [burst()]
    reader.position = start
    assert reader.read() == [burst()]


def test_position_of_another_store_is_rejected(store: Store) -> None:
    with pytest.raises(TypeError, match="not a position"):
        run(store.changes.after(FeedPosition()))


def test_lapse_is_returned_once(store: Store) -> None:
    first, second = FeedReader(store.changes), FeedReader(store.changes)
    run(store.changes.record_viewer_lapse())
    assert (first.read(), first.lapse_count) == ([], 1)
    store.lapses.record()
    store.bursts.write([burst()], [])
    assert (first.read(), first.lapse_count) == ([burst()], 2)
    assert (first.read(), first.lapse_count) == ([], 2)
    assert (second.read(), second.lapse_count) == ([burst()], 1)


def test_too_many_changes_return_none(store: Store) -> None:
    reader = FeedReader(store.changes)
    bursts = [burst(NOVA, seq) for seq in range(1, MAX_CHANGED_BURSTS + 2)]
    store.bursts.write(bursts[:-1], [])
    assert len(reader.read()) == MAX_CHANGED_BURSTS
    store.clock.advance(LATER)
    reader = FeedReader(store.changes)
    store.bursts.write([replace(burst_, version=2) for burst_ in bursts], [])
    assert run(store.changes.after(reader.position)) is None
    store.clock.advance(LATER)
    assert FeedReader(store.changes).read() == []


def test_reader_of_concurrent_writers_misses_nothing(store: Store) -> None:
    """After each call the reader knows at least everything written before the call began."""
    writers, versions = 4, 60
    reader = FeedReader(store.changes)
    own = [BurstKey(Subject(Kind.MENTION, UserId(f"w{writer}")), 1) for writer in range(writers)]
    shared = BurstKey(NOVA, 1)
    last_written = [0] * writers

    def write(writer: int) -> None:
        for version in range(1, versions + 1):
            batch = [burst(own[writer].subject, version=version), burst(version=version * writers + writer)]
            store.bursts.write(batch, [])
            last_written[writer] = version

    known: dict[BurstKey, int] = dict.fromkeys([*own, shared], 0)
    with ThreadPoolExecutor(writers) as pool:
        writing = [pool.submit(write, writer) for writer in range(writers)]
        ended = False
        while not ended:
            ended = all(writer.done() for writer in writing)
            before = list(last_written)
            _learn(known, reader.read())
            assert all(known[key] >= version for key, version in zip(own, before, strict=True))
            assert known[shared] >= max(before) * writers
        for writer in writing:
            writer.result()
    assert known == {**dict.fromkeys(own, versions), shared: versions * writers + writers - 1}
    assert reader.read() == []


def _learn(known: dict[BurstKey, int], bursts: list[Burst]) -> None:
    for burst_ in bursts:
        assert burst_.version >= known[burst_.key]
        known[burst_.key] = burst_.version
