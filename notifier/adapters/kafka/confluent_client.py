"""The log by confluent-kafka: a client in C, an order of magnitude cheaper a record."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event as Signal
from threading import Lock, Thread
from time import monotonic
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.errors import KafkaError as AdministrationError

from notifier.adapters.kafka.client import (
    ANSWERS_WITHIN,
    AT_ONCE,
    BATCH,
    BYTES,
    KNOWN_WITHIN,
    MOST_AWAY,
    Answered,
    Changes,
    Fenced,
    TooLate,
)
from notifier.adapters.kafka.config import Access
from notifier.adapters.kafka.consumer import logged
from notifier.adapters.kafka.python_client_patches import leave, unread
from notifier.adapters.kafka.topics import shortened
from notifier.domain.errors import Environment, LogUnavailable, Poison
from notifier.ports.event_log import Logged, Record

LOGGER = logging.getLogger("notifier.kafka.confluent")

NAMES = {
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
}
"""What kafka-python calls them, and librdkafka."""
OWNS_NOTHING = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._ASSIGNMENT_LOST,
)
FENCED = (KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL)
"""Nothing else is fatal to a consumer."""
LEAST = timedelta(seconds=0.1)
"""Of a poll, as with the other client: who asks for what is there gets what a broker has, not just what it has sent."""
ASKS_WITHIN = 2.0
"""Seconds of a question about offsets."""
ASKS_EVERY = 3.0
"""Seconds between two looks whether the topic is still the same."""
SETTLES_IN = 5
"""Polls of a client that is to be closed, in which it learns what its group has shared out."""
SERVES_EVERY = 0.1
"""Seconds; answers are served at once, and this is how long closing may take."""
NO_COMMIT = -1001


class ConfluentSender:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = Lock()
        self._made: Producer | None = None
        self._over = Signal()
        self._thread: Thread | None = None

    def send(self, record: Record, answered: Answered) -> None:
        topic = self._access.topic(record.stream)

        def delivered(error: KafkaError | None, _: Message) -> None:
            answered(error.name() if error is not None else None)

        try:
            with _translated("A record was not sent"):
                self._producer().produce(topic, value=record.value, key=record.key.encode(), on_delivery=delivered)
        except BufferError as error:
            raise LogUnavailable("Too much waits to be sent.") from error

    def close(self) -> None:
        with self._lock:
            if self._made is not None and self._thread is not None:
                self._made.flush(1.0)
                self._over.set()
                self._thread.join()
                self._made = None

    def _producer(self) -> Producer:
        """Made by the process that sends, at its first record."""
        with self._lock:
            if self._made is None:
                self._made = Producer(
                    {
                        **_options(self._access),
                        "acks": "all",
                        # As the other client sends: what one of them began the other one may go on with.
                        "partitioner": "murmur2_random",
                        # With more than one a batch that is tried again comes behind its successor.
                        "max.in.flight": 1,
                        "batch.size": BATCH,
                        "linger.ms": 1,
                        "message.timeout.ms": int(ANSWERS_WITHIN * 1_000),
                    },
                    logger=LOGGER,
                )
                self._over.clear()
                self._thread = Thread(target=self._serve, args=[self._made], name="kafka-answers", daemon=True)
                self._thread.start()
            return self._made

    def _serve(self, producer: Producer) -> None:
        while not self._over.is_set():
            producer.poll(SERVES_EVERY)


class ConfluentMembership:
    def __init__(self, access: Access, stream: str, group: str, name: str, changes: Changes) -> None:
        self._access, self._stream, self._name, self._changes = access, stream, name, changes
        self._topic, self._group = access.topic(stream), access.group(stream, group)
        self._consumer = Consumer(
            {
                **_options(access),
                "group.id": self._group,
                # By its name: who is started again within the lease takes its own place at once.
                "group.instance.id": name,
                "session.timeout.ms": _ms(access.lease),
                "heartbeat.interval.ms": _ms(access.lease / 5),
                "max.poll.interval.ms": _ms(MOST_AWAY),
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 250,
                "fetch.message.max.bytes": BYTES,
                "queued.min.messages": AT_ONCE,
                "queued.max.messages.kbytes": 4 * BYTES // 1024,
            },
            logger=LOGGER,
        )
        self._admin: AdminClient | None = None
        self._life, self._asked_at, self._closed = "", 0.0, False
        self._consumer.subscribe([self._topic], on_assign=self._gained, on_revoke=self._lost, on_lost=self._lost)

    def poll(self, wait: timedelta) -> Sequence[Logged]:
        with _translated("The log can't be read"):
            first = self._consumer.poll(max(LEAST, wait).total_seconds())
            # What is there besides, without waiting: the library waits until it has as many as it was asked for.
            found = [] if first is None else [first, *self._besides()]
            for one in found:
                self._judge(one.error())
        return [self._logged(one) for one in found if one.error() is None]

    def _besides(self) -> Sequence[Message]:
        try:
            # An error mustn't cost the record before it, which the library has passed; one that lasts comes again.
            return self._consumer.consume(AT_ONCE - 1, 0)
        except KafkaException as error:
            LOGGER.info("%s of %s: %s", self._name, self._group, error)
            return ()

    def commit(self, offsets: Mapping[int, int]) -> None:
        with _translated("A commit was not taken"):
            places = [TopicPartition(self._topic, number, offset) for number, offset in offsets.items()]
            for place in self._consumer.commit(offsets=places, asynchronous=False) or ():
                if place.error is not None:
                    raise KafkaException(place.error)

    def commits(self) -> Mapping[int, int | None]:
        with _translated("The group's commits aren't known"):
            numbers = self._consumer.list_topics(self._topic, ASKS_WITHIN).topics[self._topic].partitions
            known = sorted({*numbers, *(place.partition for place in self._consumer.assignment())})
            found = self._consumer.committed([TopicPartition(self._topic, number) for number in known], ASKS_WITHIN)
        return {place.partition: None if place.offset == NO_COMMIT else place.offset for place in found}

    def bounds(self, numbers: Iterable[int]) -> Mapping[int, tuple[int, int]]:
        with _translated("The ends of the partitions aren't known"):
            return {number: self._bounds(number) for number in numbers}

    def life(self) -> str:
        # The consumer has it and doesn't tell. Whoever administrates is told, and asks seldom.
        if monotonic() >= self._asked_at + ASKS_EVERY:
            self._asked_at = monotonic()
            with suppress(KafkaException):
                self._life = self._described()
        return self._life

    def _described(self) -> str:
        if self._admin is None:
            self._admin = AdminClient(_options(self._access), logger=LOGGER)
        [answer] = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=ASKS_WITHIN).values()
        id = answer.result(ASKS_WITHIN).topic_id
        return shortened(f"{id.get_most_significant_bits() & (1 << 64) - 1:016x}")

    def unread(self) -> bool:
        return unread(self._access, self._topic, self._group)

    def seek(self, number: int, offset: int) -> None:
        with _translated("A partition can't be read from there"):
            self._consumer.seek(TopicPartition(self._topic, number, offset))

    def close(self) -> None:
        member = self._consumer.memberid() or ""
        self._closed = True
        # First: who is thrown out while it still reads would come back at once. And not as it stands: closed with a
        # share in its queue that it hasn't learnt of, one in four waited for ever, and let no other thread run.
        with suppress(KafkaException):
            self._consumer.unsubscribe()
            for _ in range(SETTLES_IN):
                self._consumer.poll(SERVES_EVERY)
        self._consumer.close()
        with suppress(AdministrationError):
            leave(self._access, self._group, member, self._name)

    def _bounds(self, number: int) -> tuple[int, int]:
        found = self._consumer.get_watermark_offsets(TopicPartition(self._topic, number), ASKS_WITHIN)
        if found is None:
            raise LogUnavailable(f"Where {self._stream}/{number} ends isn't known.")
        return found

    def _judge(self, error: KafkaError | None) -> None:
        """Most errors pass by themselves, and the library says them beside the records that it has."""
        if error is None:
            return
        if error.code() in FENCED:
            raise KafkaException(error)
        LOGGER.info("%s of %s: %s", self._name, self._group, error)

    def _gained(self, _: Consumer, places: Sequence[TopicPartition]) -> None:
        if not self._closed:
            self._changes.gained([place.partition for place in places])

    def _lost(self, _: Consumer, places: Sequence[TopicPartition]) -> None:
        # What a closed one says, however late, is nothing to its successor.
        if not self._closed:
            self._changes.lost()

    def _logged(self, one: Message) -> Logged:
        # The library's types allow for a message without its place.
        partition, offset = cast(int, one.partition()), cast(int, one.offset())
        return logged(self._stream, partition, offset, key=cast(bytes, one.key()), value=cast(bytes, one.value()))


def _options(access: Access) -> dict[str, Any]:
    return {
        "bootstrap.servers": access.servers,
        # What it says below is each try to connect; what came of it, the answers say.
        "log_level": 2,
        "reconnect.backoff.max.ms": 1_000,
        "socket.timeout.ms": 2_000,
        "allow.auto.create.topics": False,
        "topic.metadata.refresh.interval.ms": _ms(KNOWN_WITHIN),
        "metadata.max.age.ms": 3 * _ms(KNOWN_WITHIN),
        **_security(access.security),
    }


def _security(given: Mapping[str, Any]) -> dict[str, Any]:
    """Raises Environment for an option that this library hasn't."""
    found = {}
    for name, value in given.items():
        if name == "ssl_check_hostname":
            found["ssl.endpoint.identification.algorithm"] = "https" if value else "none"
        elif name in NAMES:
            found[NAMES[name]] = value
        else:
            raise Environment(f"The Kafka client confluent has no option {name}.")
    return found


def _ms(time: timedelta) -> int:
    return time // timedelta(milliseconds=1)


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Every error of the library's is an outage to us, but for those that say who we are no more."""
    try:
        yield
    except KafkaException as error:
        code = error.args[0].code()
        if code in OWNS_NOTHING:
            raise TooLate from error
        if code in FENCED:
            raise Fenced from error
        if code == KafkaError.MSG_SIZE_TOO_LARGE:
            raise Poison(f"{what}: it is larger than the log takes.") from error
        raise LogUnavailable(f"{what}: {error.args[0].name()}.") from error


sender, membership = ConfluentSender, ConfluentMembership
