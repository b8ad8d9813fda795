"""Kafka topics: migrations from migrations/kafka/topics.toml, and topic incarnations.

Migrations create, grow and configure topics, but never shrink or delete a topic.
"""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import InvalidPartitionsError, KafkaError, TopicAlreadyExistsError

from notifier.adapters.kafka.connection_options_and_errors import Access, admin_client, translated
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log_and_dead_letters import Logged, Record
from notifier.topics import GROUPS

TOPICS_FILE = Path(__file__).parents[2] / "migrations" / "kafka" / "topics.toml"
"""Definition of the topics. In the source tree the path leads through a link; a wheel contains the file itself."""
REQUEST_TIMEOUT_MS = 10_000
"""Request timeout of migrations. A busy controller needs some seconds to create a topic."""
RETRY_TIMEOUT, RETRY_PAUSE = 30.0, 0.2
"""Seconds in which a migration retries failed steps, and seconds between two tries."""
ALREADY_DONE_ERRORS = (TopicAlreadyExistsError, InvalidPartitionsError)
"""Errors of a step that a concurrent migration has already run."""
INCARNATION_LENGTH = 8
"""Characters kept of the broker's topic id: enough to distinguish the few incarnations of a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Definition of a topic in `topics.toml`."""

    stream: str
    partition_count: int
    retention: timedelta
    replica_count: int
    """With fewer brokers there is one replica on each broker."""
    min_insync: int
    """With fewer replicas in sync, brokers refuse appends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationStep:
    name: str
    run: Callable[[], object]


def load_topics(path: Path = TOPICS_FILE) -> Sequence[Topic]:
    return [
        Topic(
            stream=stream,
            partition_count=settings["partitions"],
            retention=timedelta(hours=settings["retention_hours"]),
            replica_count=settings["replicas"],
            min_insync=settings["insync"],
        )
        for stream, settings in tomllib.loads(path.read_text()).items()
    ]


def pending_migration_steps(access: Access, topics: Sequence[Topic] | None = None) -> Sequence[str]:
    """Return the names of the steps, in order. Raises LogUnavailable."""
    with translated("Reading the topics failed"), admin_client(access, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        return [step.name for step in _Migration(access, admin).steps(topics or load_topics())]


def migrate(access: Access, topics: Sequence[Topic] | None = None) -> int:
    """Run the pending steps. Return how many were run; steps that a concurrent migration ran do not count.

    After an interruption the next migration continues. Raises LogUnavailable, also if a topic would grow again before
    its previous growth is complete.
    """
    with translated("Topic migration failed"), admin_client(access, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        deadline = monotonic() + RETRY_TIMEOUT
        return sum(_run(step, deadline) for step in _Migration(access, admin).steps(topics or load_topics()))


def _run(step: MigrationStep, deadline: float) -> bool:
    """Run a step, and retry it until the deadline. Return False if a concurrent migration ran it.

    Retries are necessary: a broker that has just started may not serve the topic yet.
    """
    while True:
        try:
            step.run()
            return True
        except ALREADY_DONE_ERRORS:
            return False
        except KafkaError as error:
            if not error.retriable or monotonic() > deadline:
                raise
            sleep(RETRY_PAUSE)


@dataclass(frozen=True, slots=True)
class _Migration:
    access: Access
    admin: KafkaAdminClient

    def steps(self, topics: Sequence[Topic]) -> Iterator[MigrationStep]:
        broker_count = len(self.admin.describe_cluster()["brokers"])
        names = [self.access.topic(topic.stream) for topic in topics]
        existing = {topic["name"]: topic for topic in self.admin.describe_topics(names) if topic["partitions"]}
        for topic, name in zip(topics, names, strict=True):
            if name not in existing:
                yield self._create_step(topic, min(topic.replica_count, broker_count))
            else:
                yield from self._alter_steps(topic, existing[name]["partitions"])

    def _create_step(self, topic: Topic, replica_count: int) -> MigrationStep:
        definition = {
            self.access.topic(topic.stream): {
                "num_partitions": topic.partition_count,
                "replication_factor": replica_count,
                "configs": _configs(topic, replica_count),
            }
        }
        create = partial(self.admin.create_topics, definition, wait_for_metadata=True)
        return MigrationStep(name=f"create {topic.stream}", run=create)

    def _alter_steps(self, topic: Topic, partitions: Sequence[Any]) -> Iterator[MigrationStep]:
        if len(partitions) < topic.partition_count:
            grow = partial(self._grow, topic, len(partitions))
            yield MigrationStep(name=f"grow {topic.stream} to {topic.partition_count}", run=grow)
        resource = ConfigResource(ConfigResourceType.TOPIC, self.access.topic(topic.stream))
        configs = self.admin.describe_configs([resource], config_filter="all")["topic"][resource.name]
        replica_count = min(len(partition["replica_nodes"]) for partition in partitions)
        for key, value in _configs(topic, replica_count).items():
            if key in configs and configs[key]["value"] != value:
                name = f"set {key} of {topic.stream} to {value}"
                yield MigrationStep(name=name, run=partial(self._set_config, topic, key, value))

    def _set_config(self, topic: Topic, key: str, value: str) -> None:
        name = self.access.topic(topic.stream)
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {key: value})])

    def _grow(self, topic: Topic, current_count: int) -> None:
        # Commit first: a group recognizes new partitions by their missing commits (partition_growth.py).
        self._commit_existing_partitions(topic.stream, current_count)
        self.admin.create_partitions({self.access.topic(topic.stream): topic.partition_count})

    def _commit_existing_partitions(self, stream: str, partition_count: int) -> None:
        """Commit offset 0 for a group without commits.

        Such a group has no members, or has just started, and its members commit offset 0, too. Raises LogUnavailable
        if the group has committed only some of the partitions.
        """
        group, topic = self.access.group(stream, GROUPS[stream]), self.access.topic(stream)
        topic_partitions = [TopicPartition(topic, number) for number in range(partition_count)]
        offsets = self.admin.list_group_offsets({group: topic_partitions})[group]
        committed = [
            topic_partition
            for topic_partition in topic_partitions
            if topic_partition in offsets and offsets[topic_partition].offset >= 0
        ]
        if not committed:
            self.admin.alter_group_offsets(
                group, {topic_partition: OffsetAndMetadata(0, "", -1) for topic_partition in topic_partitions}
            )
        elif len(committed) < partition_count:
            raise LogUnavailable(
                f"{stream} is still growing: its consumers do not read all {partition_count} partitions yet."
            )


def _configs(topic: Topic, replica_count: int) -> dict[str, str]:
    return {
        "retention.ms": str(topic.retention // timedelta(milliseconds=1)),
        "min.insync.replicas": str(min(topic.min_insync, replica_count)),
        # Brokers store records uncompressed, so consumers need no compression library.
        "compression.type": "uncompressed",
    }


# Topic incarnations: a topic that was deleted and recreated counts its offsets from 0 again.


def topic_incarnation(access: Access, stream: str) -> str:
    """Ask the brokers for the incarnation of the stream's topic. Raises LogUnavailable."""
    with translated("Reading the topic failed"), admin_client(access) as admin:
        [topic] = admin.describe_topics([access.topic(stream)])
    return incarnation_of(topic["topic_id"])


def incarnation_of(topic_id: object) -> str:
    """Shorten the broker's topic id to an incarnation."""
    return str(topic_id).replace("-", "")[:INCARNATION_LENGTH]


def to_logged(stream: str, record: Any) -> Logged:
    """Convert a record of the library, whatever it contains.

    Never raises: after an error the consumer would join again, and fail at this record again.
    """
    key, value = (record.key or b"").decode(errors="replace"), record.value or b""
    name = f"{stream}/{record.partition}"
    return Logged(partition=name, offset=record.offset, record=Record(stream=stream, key=key, value=value))


def with_incarnation(logged: Logged, incarnation: str) -> Logged:
    """Add the topic's incarnation to the partition name: offsets of one incarnation are meaningless in the next."""
    stream, _, number = logged.partition.rpartition("/")
    return replace(logged, partition=f"{stream}@{incarnation}/{number}")
