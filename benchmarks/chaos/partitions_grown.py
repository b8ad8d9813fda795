"""`partitions_grown_live`: a topic gets more partitions under load, and each subject keeps its order."""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

from benchmarks.chaos.scenario_stage import Stage
from notifier import topics
from notifier.adapters.kafka import load_topics, migrate
from notifier.codec import unpack
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.domain.bursts.events_and_mentions import Mention
from notifier.domain.ids import Subject
from notifier.ports.event_log_and_dead_letters import Logged
from notifier.profiles.cluster_connection_parameters import kafka_access

NAME = "partitions_grown_live"
STREAM = topics.MENTIONS_CELEBRITY
PARTITIONS = 2 * topics.PARTITION_COUNTS[STREAM]
MENTIONS, STORM_SECONDS = 75, 25.0
"""The storm lasts longer than consumers withhold the records of new partitions."""
READ_TIMEOUT_SECONDS = 60.0


def run(stage: Stage, *, quick: bool) -> Finding:
    topic = next(topic for topic in load_topics() if topic.stream == STREAM)
    stage.send(24)  # every partition has a reader that has committed
    wrong = stage.wrong()
    with stage.storming(MENTIONS, STORM_SECONDS):
        time.sleep(STORM_SECONDS / 4)
        migrate(kafka_access(stage.settings), [replace(topic, partition_count=PARTITIONS)])
    wrong += stage.wrong()
    by_subject = _by_subject(stage)
    moved = sum(len({_number(record) for record in records}) > 1 for records in by_subject.values())
    if not moved:
        wrong.append("no subject moved to another partition: nothing was tested")
    for subject, records in by_subject.items():
        numbers = list(_numbers(stage, subject, records))
        if numbers != sorted(numbers):
            wrong.append(f"{subject}: {numbers}")
    stage.tell(f"{moved} of {len(by_subject)} subjects moved to a new partition")
    return no_errors(NAME, wrong, n=sum(map(len, by_subject.values())))


def _by_subject(stage: Stage) -> Mapping[Subject, list[Logged]]:
    """Read the whole topic with a separate consumer group.

    Order the records by partition and offset: old partitions come first.
    """
    reader = stage.ports.log.subscribe(STREAM, "check", "check")
    by_subject: dict[Subject, list[Logged]] = defaultdict(list)
    quiet = time.monotonic() + READ_TIMEOUT_SECONDS
    while time.monotonic() < quiet:
        records = reader.poll(200, timedelta(seconds=0.5))
        for record in records:
            by_subject[unpack(Mention, record.record.value).subject].append(record)
        if records:
            quiet = time.monotonic() + 5.0
    reader.close()
    for records_of_one in by_subject.values():
        records_of_one.sort(key=lambda record: (_number(record), record.offset))
    return by_subject


def _numbers(stage: Stage, subject: Subject, records: list[Logged]) -> Iterator[int]:
    """Yield the burst numbers of the mentions. A mention that is in the log twice counts at its first place."""
    for id in dict.fromkeys(unpack(Mention, record.record.value).event for record in records):
        for outcome in stage.ports.bursts.outcomes(id.source, id.id):
            if outcome.burst is not None and outcome.burst.subject == subject:
                yield outcome.burst.seq


def _number(record: Logged) -> int:
    return int(record.partition.rpartition("/")[2])
