"""A topic that grows while it is read: whose key moved is read in order, and nothing is lost."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain, repeat
from threading import Event as Signal
from threading import Lock, Thread

import pytest
from kafka.coordinator.consumer import ConsumerCoordinator

from notifier.adapters.kafka.partition_growth import SETTLE_TIME
from notifier.adapters.kafka.topics import migrate, plan
from notifier.ports.event_log import Logged, Record
from tests.contracts.logs import InKafka, in_kafka
from tests.contracts.reading import ALL, KEYS, STREAM, append, commit, keys, poll
from tests.services.waiting import until

[TOPIC] = [topic for topic in plan() if topic.stream == STREAM]
NEW_WITHIN = 30.0
"""Seconds from a topic's growth until its new partitions are read; 12 where nothing else keeps the machine."""
SLOW_PLAN, SLOW_PLANS = 1.5, 0.3
"""Seconds of sharing anew: longer than a poll of who joins, then longer than one of who has joined."""


@pytest.fixture
def logs(kafka: str) -> Iterator[InKafka]:
    with in_kafka(kafka) as found:
        yield found


ROUND = [f"{n} {n * n}" for n in range(40)]
"""Keys enough for every partition to have some, the new ones included."""
BEHIND = 60
"""Rounds that stand in the log before anybody reads."""


class Growing:
    """A sender, readers that are behind it, and what they have read in the order in which they read it."""

    def __init__(self, logs: InKafka) -> None:
        self.logs = logs
        self.over, self.read_all = Signal(), Signal()
        self.sent = 0
        self.lock = Lock()
        self.last = dict.fromkeys(ROUND, -1)
        self.wrong: list[str] = []
        self.new_after: dict[str, float] = {}
        self.grown_at = 0.0

    def send(self) -> None:
        while not self.over.is_set():
            self.round()
            time.sleep(0.1)

    def round(self) -> None:
        self.logs.log.append([Record(stream=STREAM, key=key, value=str(self.sent).encode()) for key in ROUND])
        self.sent += 1

    def read(self, owner: str) -> None:
        """Slower than it could, so that what is new could overtake what is old."""
        reader = self.logs.log.subscribe(STREAM, "router", owner)
        while not self.read_all.is_set():
            found = reader.poll(50, timedelta(seconds=0.1))
            with self.lock:
                for one in found:
                    self.take(one)
            commit(reader, found)
            time.sleep(0.1)
        reader.close()

    def take(self, one: Logged) -> None:
        key, number = one.record.key, int(one.record.value)
        if number > self.last[key] + 1:
            self.wrong.append(f"{key}: {number} after {self.last[key]} in {one.partition}")
        self.last[key] = max(self.last[key], number)
        if int(one.partition.rpartition("/")[2]) >= ALL:
            self.new_after.setdefault(one.partition, time.monotonic() - self.grown_at)

    def done(self) -> bool:
        with self.lock:
            return set(self.last.values()) == {self.sent - 1}


@pytest.mark.timeout(120)
def test_a_topic_that_grows_while_it_is_read_and_written_keeps_each_keys_order_and_loses_nothing(logs: InKafka) -> None:
    growing = Growing(logs)
    for _ in range(BEHIND):
        growing.round()
    threads = [Thread(target=growing.send), *(Thread(target=growing.read, args=[name]) for name in ("one", "two"))]
    for thread in threads:
        thread.start()
    try:
        until(lambda: max(growing.last.values()) >= 0)
        assert migrate(logs.access, [replace(TOPIC, partitions=2 * ALL)]) >= 1
        growing.grown_at = time.monotonic()
        until(lambda: len(growing.new_after) == ALL)
        growing.over.set()
        threads[0].join()
        until(growing.done)
    finally:
        growing.over.set()
        growing.read_all.set()
        for thread in threads:
            thread.join()
    assert growing.wrong == []
    assert max(growing.new_after.values()) < NEW_WITHIN


def test_who_sent_nothing_while_a_topic_grew_sends_to_its_new_partitions_afterwards(logs: InKafka) -> None:
    append(logs, *KEYS)
    migrate(logs.access, [replace(TOPIC, partitions=2 * ALL)])
    time.sleep(SETTLE_TIME)  # the longest that a sender may be wrong
    append(logs, *KEYS)
    places: dict[str, list[str]] = {key: [] for key in KEYS}
    for one in logs.log.waiting(STREAM, "router", 1_000):
        places[one.record.key].append(one.partition)
    assert sum(len(set(found)) == 2 for found in places.values()) > len(KEYS) / 4


def test_a_new_partition_that_changes_hands_is_still_held_and_then_read_from_its_beginning(logs: InKafka) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    behind = poll(logs, first, due=len(KEYS))
    migrate(logs.access, [replace(TOPIC, partitions=2 * ALL)])
    time.sleep(SETTLE_TIME)
    append(logs, *KEYS)
    first.close()
    second = logs.subscribe(STREAM, "router", "two")
    found = poll(logs, second)
    assert set(keys(found)) == set(KEYS)
    assert {one.partition for one in found} == {one.partition for one in behind}
    commit(second, found)
    began, new = time.monotonic(), list[Logged]()
    while len(found) + len(new) < 2 * len(KEYS) and time.monotonic() - began < NEW_WITHIN:
        new += poll(logs, second)
    assert keys([*found, *new]) == sorted(KEYS + KEYS)
    assert all(int(one.partition.rpartition("/")[2]) >= ALL for one in new)


def test_who_leads_a_group_reads_on_though_its_polls_end_while_it_shares_a_topic_that_grew(
    logs: InKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(logs, *KEYS)
    leader = logs.log.subscribe(STREAM, "router", "one")
    commit(leader, poll(logs, leader, due=len(KEYS)))
    planned, pauses = ConsumerCoordinator._perform_assignment, chain([SLOW_PLAN], repeat(SLOW_PLANS))

    def slowly(*given: object) -> object:
        time.sleep(next(pauses))
        return planned(*given)

    monkeypatch.setattr(ConsumerCoordinator, "_perform_assignment", slowly)
    migrate(logs.access, [replace(TOPIC, partitions=2 * ALL)])
    time.sleep(SETTLE_TIME)
    append(logs, *KEYS)
    began, found = time.monotonic(), list[Logged]()
    while len(found) < len(KEYS) and time.monotonic() - began < NEW_WITHIN:
        more = poll(logs, leader, within=timedelta(seconds=1))
        commit(leader, more)
        found += more
    leader.close()
    assert keys(found) == sorted(KEYS)
