"""Brings the topics to what migrations/kafka/topics.toml says: made, grown, kept as long; never shrunk or deleted."""

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

from notifier.adapters.kafka.config import Access, translated
from notifier.adapters.kafka.python_client_patches import administration
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Logged
from notifier.topics import GROUPS

PLAN = Path(__file__).parents[2] / "migrations" / "kafka" / "topics.toml"
"""In the package: a link in the source tree, to the folder that people look into, and a file of its own in a wheel."""
STEP_WITHIN = 10_000
"""Milliseconds of one request: a busy controller needs some seconds for a topic."""
WITHIN = 30.0
"""Seconds in which steps are tried again."""
AGAIN_AFTER = 0.2
BY_ANOTHER = (TopicAlreadyExistsError, InvalidPartitionsError)
"""Of two runners at once one does a step, and the other is told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    stream: str
    partitions: int
    retention: timedelta
    replicas: int
    insync: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    name: str
    take: Callable[[], object]


def plan(path: Path = PLAN) -> Sequence[Topic]:
    return [
        Topic(
            stream=stream,
            partitions=wish["partitions"],
            retention=timedelta(hours=wish["retention_hours"]),
            replicas=wish["replicas"],
            insync=wish["insync"],
        )
        for stream, wish in tomllib.loads(path.read_text()).items()
    ]


def pending(access: Access, topics: Sequence[Topic] | None = None) -> Sequence[str]:
    """The names of the steps that are missing, in their order. Raises LogUnavailable."""
    with translated("The topics aren't known"), administration(access, request_timeout_ms=STEP_WITHIN) as admin:
        return [step.name for step in _Topics(access, admin).steps(topics or plan())]


def migrate(access: Access, topics: Sequence[Topic] | None = None) -> int:
    """Takes the steps that are missing and returns how many those were; what another runner took isn't counted.

    Each step is whole or not taken, so one that was cut off is found again. Raises LogUnavailable when the brokers
    are away, or before a growth while the last one isn't over.
    """
    with translated("The topics can't be made"), administration(access, request_timeout_ms=STEP_WITHIN) as admin:
        until = monotonic() + WITHIN
        return sum(_taken(step, until) for step in _Topics(access, admin).steps(topics or plan()))


def _taken(step: Step, until: float) -> bool:
    """A broker that has just started, or just made the topic, needs a moment until it answers for it."""
    while True:
        try:
            step.take()
            return True
        except BY_ANOTHER:
            return False
        except KafkaError as error:
            if not error.retriable or monotonic() > until:
                raise
            sleep(AGAIN_AFTER)


@dataclass(frozen=True, slots=True)
class _Topics:
    access: Access
    admin: KafkaAdminClient

    def steps(self, topics: Sequence[Topic]) -> Iterator[Step]:
        brokers = len(self.admin.describe_cluster()["brokers"])
        names = [self.access.topic(topic.stream) for topic in topics]
        found = {one["name"]: one for one in self.admin.describe_topics(names) if one["partitions"]}
        for topic, name in zip(topics, names, strict=True):
            if name not in found:
                yield self._make(topic, min(topic.replicas, brokers))
            else:
                yield from self._mend(topic, found[name]["partitions"])

    def _make(self, topic: Topic, replicas: int) -> Step:
        wish = {
            "num_partitions": topic.partitions,
            "replication_factor": replicas,
            "configs": _configs(topic, replicas),
        }
        made = {self.access.topic(topic.stream): wish}
        return Step(name=f"make {topic.stream}", take=partial(self.admin.create_topics, made, wait_for_metadata=True))

    def _mend(self, topic: Topic, partitions: Sequence[Any]) -> Iterator[Step]:
        has, wished = len(partitions), topic.partitions
        if has < wished:
            yield Step(name=f"grow {topic.stream} to {wished}", take=partial(self._grow, topic, has))
        resource = ConfigResource(ConfigResourceType.TOPIC, self.access.topic(topic.stream))
        configs = self.admin.describe_configs([resource], config_filter="all")["topic"][resource.name]
        for key, value in _configs(topic, min(len(one["replica_nodes"]) for one in partitions)).items():
            if key in configs and configs[key]["value"] != value:
                yield Step(name=f"set {key} of {topic.stream} to {value}", take=partial(self._set, topic, key, value))

    def _set(self, topic: Topic, key: str, value: str) -> None:
        name = self.access.topic(topic.stream)
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {key: value})])

    def _grow(self, topic: Topic, has: int) -> None:
        self._mark(topic.stream, has)
        self.admin.create_partitions({self.access.topic(topic.stream): topic.partitions})

    def _mark(self, stream: str, has: int) -> None:
        """What the group has read stands in its commits before the growth: see growth.py. One without any commit has
        no members either, or they are just making theirs."""
        group, name = self.access.group(stream, GROUPS[stream]), self.access.topic(stream)
        places = [TopicPartition(name, number) for number in range(has)]
        found = self.admin.list_group_offsets({group: places})[group]
        committed = [place for place in places if place in found and found[place].offset >= 0]
        if not committed:
            self.admin.alter_group_offsets(group, {place: OffsetAndMetadata(0, "", -1) for place in places})
        elif len(committed) < has:
            raise LogUnavailable(f"{stream} is still growing: its readers don't read all {has} partitions yet.")


def _configs(topic: Topic, replicas: int) -> dict[str, str]:
    return {
        "retention.ms": str(topic.retention // timedelta(milliseconds=1)),
        "min.insync.replicas": str(min(topic.insync, replicas)),
        # Whoever sends and however: what is read needs no library of the sender's.
        "compression.type": "uncompressed",
    }


# Which life of a topic this is: one that was deleted and made again counts its records anew.

LETTERS = 8
"""Of the id that the brokers give a topic: enough to tell its few lives apart."""


def incarnation(access: Access, stream: str) -> str:
    """The same for everybody as long as the topic isn't deleted. Raises LogUnavailable."""
    with translated("The topic isn't known"), administration(access) as admin:
        [found] = admin.describe_topics([access.topic(stream)])
    return shortened(found["topic_id"])


def shortened(id: object) -> str:
    return str(id).replace("-", "")[:LETTERS]


def named(one: Logged, life: str) -> Logged:
    """With the topic's life in its partition's name: what heads have applied of one says nothing of the next."""
    stream, _, number = one.partition.rpartition("/")
    return replace(one, partition=f"{stream}@{life}/{number}")
