"""Readers of Kafka that come back, and partitions that come new: what other backends of the log don't know."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from threading import Event as Signal
from threading import Lock, Thread

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from notifier.adapters.kafka import CONFLUENT, KAFKA_PYTHON, Access, confluent
from notifier.adapters.kafka.growth import SETTLES
from notifier.adapters.kafka.log import KafkaLog
from notifier.adapters.kafka.making import administration
from notifier.adapters.kafka.topics import migrate, plan
from notifier.domain.errors import LogUnavailable
from notifier.ports.log import Consumer, Logged, Record
from tests.contracts.logs import InKafka, in_kafka
from tests.contracts.member import member
from tests.contracts.reading import ALL, KEYS, LEASE, STREAM, append, commit, finish, keys, nothing, poll

[TOPIC] = [topic for topic in plan() if topic.stream == STREAM]
NEW_WITHIN = 30.0
"""Seconds from a topic's growth until its new partitions are read; 12 where nothing else keeps the machine."""
STRANGE = [(None, b"v"), (b"\xff\xfe", b"v"), (b"k", None)]
"""Keys and values: none, no text, none."""
REPLACED_WITHIN = 10.0
"""Seconds, as promised for a router or coordinator."""


PACKED = b"x" * 1_000


@pytest.fixture(params=[KAFKA_PYTHON, CONFLUENT])
def logs(kafka: str, request: pytest.FixtureRequest) -> Iterator[InKafka]:
    with in_kafka(kafka, request.param) as found:
        yield found


def test_who_was_killed_and_comes_back_as_the_same_instance_has_its_partitions_well_before_the_lease_ends(
    logs: InKafka,
) -> None:
    named = replace(logs.access, instance="host-1")
    append(logs, *KEYS)
    before, after = (member(named, logs.client, STREAM, "router", owner) for owner in ("owner 1", "owner 2"))
    logs.members += [before, after]
    assert keys(poll(logs, before, due=len(KEYS))) == sorted(KEYS)
    assert after.lag() == 0  # it runs, and has not joined
    before.end()
    killed = time.monotonic()
    assert keys(poll(logs, after, due=len(KEYS))) == sorted(KEYS)
    assert time.monotonic() - killed < LEASE.total_seconds() / 2


def test_records_that_no_writer_of_ours_wrote_cost_none_of_those_that_are_read_with_them(logs: InKafka) -> None:
    append(logs, *KEYS)
    with closing(KafkaProducer(bootstrap_servers=logs.access.servers)) as stranger:
        for partition in range(ALL):
            for key, value in STRANGE:
                stranger.send(logs.access.topic(STREAM), key=key, value=value, partition=partition).get(timeout=10)
    append(logs, *KEYS)
    everything = Counter(KEYS * 2) + Counter({"": ALL, "\ufffd\ufffd": ALL, "k": ALL})
    assert Counter(one.record.key for one in logs.log.waiting(STREAM, "router", 1_000)) == everything
    consumer = logs.subscribe(STREAM, "router", "one")
    found = poll(logs, consumer, due=everything.total())
    commit(consumer, found)
    assert Counter(one.record.key for one in found) == everything
    assert sum(one.record.value == b"" for one in found) == ALL
    assert consumer.lag() == 0


def test_what_a_stranger_compressed_in_whatever_way_is_read(logs: InKafka) -> None:
    # A topic that is made with its settings: to one that is there they come a moment later.
    access = replace(logs.access, prefix=f"{logs.access.prefix}made.")
    migrate(access, [TOPIC])
    packed(access, "zstd")
    with closing(KafkaLog(access, logs.client).subscribe(STREAM, "router", "one")) as reader:
        assert [one.record.value for one in poll(logs, reader)] == [PACKED]


def test_what_cannot_be_unpacked_is_an_outage_at_every_read_and_holds_none_of_them_up(kafka: str) -> None:
    with in_kafka(kafka, KAFKA_PYTHON) as logs:
        packed(logs.access, "zstd")
        reader = KafkaLog(logs.access).subscribe(STREAM, "router", "one")
        with closing(reader):
            for _ in range(3):
                until(partial(refused, reader))


def refused(reader: Consumer) -> bool:
    """Until it is a member nothing comes."""
    try:
        assert reader.poll(10, timedelta(seconds=0.1)) == []
    except LogUnavailable as told:
        return "UnsupportedCodecError" in str(told)
    return False


def packed(access: Access, how: str) -> None:
    producer = Producer({"bootstrap.servers": access.servers, "compression.type": how})
    producer.produce(access.topic(STREAM), key=b"k", value=PACKED)
    assert producer.flush(10) == 0


def test_a_reader_that_was_killed_is_replaced_by_another_when_the_lease_ends(logs: InKafka) -> None:
    append(logs, *KEYS)
    before, after = (member(logs.access, logs.client, STREAM, "router", owner) for owner in ("owner 1", "owner 2"))
    logs.members += [before, after]
    assert keys(poll(logs, before, due=len(KEYS))) == sorted(KEYS)
    before.end()
    killed, found = time.monotonic(), list[Logged]()
    while not found:
        found += poll(logs, after)
        assert time.monotonic() - killed < REPLACED_WITHIN
    assert keys(found) == sorted(KEYS)


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
    time.sleep(SETTLES)  # the longest that a sender may be wrong
    append(logs, *KEYS)
    places: dict[str, list[str]] = {key: [] for key in KEYS}
    for one in logs.log.waiting(STREAM, "router", 1_000):
        places[one.record.key].append(one.partition)
    assert sum(len(set(found)) == 2 for found in places.values()) > len(KEYS) / 4


@pytest.mark.parametrize("logs", [KAFKA_PYTHON], indirect=True)
def test_a_new_partition_that_changes_hands_is_still_held_and_then_read_from_its_beginning(logs: InKafka) -> None:
    append(logs, *KEYS)
    first = logs.subscribe(STREAM, "router", "one")
    behind = poll(logs, first, due=len(KEYS))
    migrate(logs.access, [replace(TOPIC, partitions=2 * ALL)])
    time.sleep(SETTLES)
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


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_topic_that_was_deleted_and_made_again_is_read_from_its_beginning_by_those_who_read_it_before(
    logs: InKafka,
) -> None:
    """Its offsets begin anew: neither where it was read nor what was applied of it says anything of the new one."""
    append(logs, *KEYS)
    reader = logs.subscribe(STREAM, "router", "one")
    before = poll(logs, reader, due=len(KEYS))
    commit(reader, before)
    name = logs.access.topic(STREAM)
    with administration(logs.access) as admin:
        admin.delete_topics([name])
    migrate(logs.access, [TOPIC])
    append(logs, *KEYS, *KEYS, *KEYS)  # more than before: who went on where it was would find something
    began, old = time.monotonic(), {life(one) for one in before}
    after: dict[tuple[str, int], Logged] = {}
    while len(after) < 3 * len(KEYS) and time.monotonic() - began < NEW_WITHIN:
        with suppress(LogUnavailable):
            found = reader.poll(200, timedelta(seconds=0.1))
            after |= {(one.partition, one.offset): one for one in found if life(one) not in old}
            reader.lag()
    assert keys([*after.values()]) == sorted(3 * [*KEYS])
    commit(reader, [*after.values()])
    finish(logs, reader)
    reader.close()
    assert nothing(logs, logs.subscribe(STREAM, "router", "two"))


def life(one: Logged) -> str:
    return one.partition.partition("@")[2].partition("/")[0]


def test_what_a_client_says_after_it_was_closed_is_nothing_to_its_successor(kafka: str) -> None:
    told: list[str] = []
    with in_kafka(kafka, CONFLUENT) as logs:
        membership = confluent.ConfluentMembership(logs.access, STREAM, "router", "one", Told(told))
        membership.close()
        membership._lost(membership._consumer, [])
        membership._gained(membership._consumer, [])
    assert told == []


@dataclass(frozen=True, slots=True)
class Told:
    told: list[str]

    def gained(self, numbers: Iterable[int]) -> None:
        self.told.append("gained")

    def lost(self) -> None:
        self.told.append("lost")
