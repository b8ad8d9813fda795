"""Topics that grow while being read keep key order and lose nothing."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain, repeat
from threading import Event as Signal
from threading import Lock, Thread

import pytest
from kafka.coordinator.consumer import ConsumerCoordinator

from notifier.adapters.kafka.partition_growth import PRODUCER_SWITCH_SECONDS
from notifier.adapters.kafka.topics import load_topics, migrate
from notifier.ports.event_log_and_dead_letters import Logged, Record
from tests.contracts.event_log_backends import KafkaLogs, in_kafka
from tests.contracts.event_log_steps import KEYS, PARTITION_COUNT, STREAM, append, commit, keys, poll
from tests.services.wait_for_engine_change import wait_until

pytestmark = pytest.mark.thorough

[TOPIC] = [topic for topic in load_topics() if topic.stream == STREAM]
NEW_WITHIN = 30.0
"""Seconds from a topic's growth until its new partitions are read; 12 on an otherwise idle machine."""
FIRST_REBALANCE_SECONDS, LATER_REBALANCE_SECONDS = 1.5, 0.3
"""The first is longer than a poll of a joining reader, the later ones longer than a poll of a joined one."""


@pytest.fixture
def logs(kafka: str) -> Iterator[KafkaLogs]:
    with in_kafka(kafka) as logs:
        yield logs


ROUND = [f"{n} {n * n}" for n in range(40)]
"""Enough keys for every partition to have some, including the new ones."""
ROUNDS_BEFORE_READING = 60
"""Rounds that are in the log before any reader starts."""


class GrowingTopic:
    """A sender, readers that lag behind it, and the records in the order in which they were read."""

    def __init__(self, logs: KafkaLogs) -> None:
        self.logs = logs
        self.stop_sending, self.stop_reading = Signal(), Signal()
        self.sent = 0
        self.lock = Lock()
        self.last = dict.fromkeys(ROUND, -1)
        self.wrong: list[str] = []
        self.new_after: dict[str, float] = {}
        self.grown_at = 0.0

    def send(self) -> None:
        while not self.stop_sending.is_set():
            self.send_round()
            time.sleep(0.1)

    def send_round(self) -> None:
        self.logs.log.append([Record(stream=STREAM, key=key, value=str(self.sent).encode()) for key in ROUND])
        self.sent += 1

    def read(self, owner: str) -> None:
        """Read slower than possible, so that new records could overtake old ones."""
        reader = self.logs.log.subscribe(STREAM, "router", owner)
        while not self.stop_reading.is_set():
            records = reader.poll(50, timedelta(seconds=0.1))
            with self.lock:
                for logged in records:
                    self.take(logged)
            commit(reader, records)
            time.sleep(0.1)
        reader.close()

    def take(self, logged: Logged) -> None:
        key, number = logged.record.key, int(logged.record.value)
        if number > self.last[key] + 1:
            self.wrong.append(f"{key}: {number} after {self.last[key]} in {logged.partition}")
        self.last[key] = max(self.last[key], number)
        if int(logged.partition.rpartition("/")[2]) >= PARTITION_COUNT:
            self.new_after.setdefault(logged.partition, time.monotonic() - self.grown_at)

    def done(self) -> bool:
        with self.lock:
            return set(self.last.values()) == {self.sent - 1}


@pytest.mark.timeout(120)
def test_growing_topic_keeps_key_order_and_loses_nothing(logs: KafkaLogs) -> None:
    topic = GrowingTopic(logs)
    for _ in range(ROUNDS_BEFORE_READING):
        topic.send_round()
    threads = [Thread(target=topic.send), *(Thread(target=topic.read, args=[name]) for name in ("one", "two"))]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: max(topic.last.values()) >= 0)
        assert migrate(logs.access, [replace(TOPIC, partition_count=2 * PARTITION_COUNT)]) >= 1
        topic.grown_at = time.monotonic()
        wait_until(lambda: len(topic.new_after) == PARTITION_COUNT)
        topic.stop_sending.set()
        threads[0].join()
        wait_until(topic.done)
    finally:
        topic.stop_sending.set()
        topic.stop_reading.set()
        for thread in threads:
            thread.join()
    assert topic.wrong == []
    assert max(topic.new_after.values()) < NEW_WITHIN


def test_idle_sender_uses_new_partitions_after_growth(logs: KafkaLogs) -> None:
    append(logs, *KEYS)
    migrate(logs.access, [replace(TOPIC, partition_count=2 * PARTITION_COUNT)])
    time.sleep(PRODUCER_SWITCH_SECONDS)  # the longest time that a sender may use the old partitions
    append(logs, *KEYS)
    partitions_of: dict[str, list[str]] = {key: [] for key in KEYS}
    for logged in logs.log.read_uncommitted(STREAM, "router", 1_000):
        partitions_of[logged.record.key].append(logged.partition)
    assert sum(len(set(partitions)) == 2 for partitions in partitions_of.values()) > len(KEYS) / 4


@pytest.mark.prove
def test_reassigned_new_partition_is_held_and_then_read_wholly(logs: KafkaLogs) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    old_records = poll(logs, first, due=len(KEYS))
    migrate(logs.access, [replace(TOPIC, partition_count=2 * PARTITION_COUNT)])
    time.sleep(PRODUCER_SWITCH_SECONDS)
    append(logs, *KEYS)
    first.close()
    second = logs.subscribe(STREAM, "router", "two")
    second_read = poll(logs, second)
    assert set(keys(second_read)) == set(KEYS)
    assert {logged.partition for logged in second_read} == {logged.partition for logged in old_records}
    commit(second, second_read)
    started_at, new_records = time.monotonic(), list[Logged]()
    while len(second_read) + len(new_records) < 2 * len(KEYS) and time.monotonic() - started_at < NEW_WITHIN:
        new_records += poll(logs, second)
    assert keys([*second_read, *new_records]) == sorted(KEYS + KEYS)
    assert all(int(logged.partition.rpartition("/")[2]) >= PARTITION_COUNT for logged in new_records)


@pytest.mark.prove
def test_group_leader_reads_on_though_rebalance_outlasts_polls(
    logs: KafkaLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(logs, *KEYS)
    leader = logs.log.subscribe(STREAM, "router", "one")
    commit(leader, poll(logs, leader, due=len(KEYS)))
    perform_assignment, pauses = (
        ConsumerCoordinator._perform_assignment,
        chain([FIRST_REBALANCE_SECONDS], repeat(LATER_REBALANCE_SECONDS)),
    )

    def assign_slowly(*arguments: object) -> object:
        time.sleep(next(pauses))
        return perform_assignment(*arguments)

    monkeypatch.setattr(ConsumerCoordinator, "_perform_assignment", assign_slowly)
    migrate(logs.access, [replace(TOPIC, partition_count=2 * PARTITION_COUNT)])
    time.sleep(PRODUCER_SWITCH_SECONDS)
    append(logs, *KEYS)
    started_at, records = time.monotonic(), list[Logged]()
    while len(records) < len(KEYS) and time.monotonic() - started_at < NEW_WITHIN:
        batch = poll(logs, leader, within=timedelta(seconds=1))
        commit(leader, batch)
        records += batch
    leader.close()
    assert keys(records) == sorted(KEYS)
