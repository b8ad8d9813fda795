"""`poison_record`: an unreadable record on every topic becomes a dead letter, and everything else continues."""

import time
from collections.abc import Mapping
from contextlib import closing

from kafka import KafkaProducer

from benchmarks.chaos.scenario_stage import MAX_DEAD_LETTERS, Stage
from notifier import topics
from notifier.adapters.kafka import Access
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.ports.event_log_and_dead_letters import Record
from notifier.profiles.cluster_connection_parameters import kafka_access

NAME = "poison_record"
MENTIONS, STORM_SECONDS = 40, 6.0
DEAD_LETTER_TIMEOUT_SECONDS = 30.0


def run(stage: Stage, *, quick: bool) -> Finding:
    ours = {stream: f"not a record of {stream}" for stream in topics.PARTITION_COUNTS}
    strange = {stream: f"foreign record without a key in {stream}" for stream in topics.PARTITION_COUNTS}
    bodies = {*ours.values(), *strange.values()}
    stage.expected_letters |= bodies
    with stage.storming(MENTIONS, STORM_SECONDS):
        time.sleep(STORM_SECONDS / 3)
        key = stage.world.names[0]
        stage.ports.log.append([Record(stream=s, key=key, value=body.encode()) for s, body in ours.items()])
        _write(kafka_access(stage.settings), strange)
    wrong = stage.wrong()
    deadline = time.monotonic() + DEAD_LETTER_TIMEOUT_SECONDS
    while (missing := bodies - _buried(stage)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return no_errors(NAME, wrong + [f"no dead letter for {body!r}" for body in sorted(missing)], n=len(bodies))


def _write(access: Access, bodies: Mapping[str, str]) -> None:
    """Write records as another application would: our own log gives every record a key."""
    with closing(KafkaProducer(**access.options())) as producer:
        for stream, body in bodies.items():
            producer.send(access.topic(stream), value=body.encode()).get(DEAD_LETTER_TIMEOUT_SECONDS)


def _buried(stage: Stage) -> set[str]:
    return {letter.body.decode(errors="replace") for letter in stage.ports.dead_letters.list(MAX_DEAD_LETTERS)}
