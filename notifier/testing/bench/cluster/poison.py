"""`poison_record`: a record that nobody can read, on every topic, becomes a dead letter; everything else flows."""

import time

from notifier import topics
from notifier.ports.log import Record
from notifier.testing.bench.cluster.stage import LETTERS_SHOWN, Stage
from notifier.testing.finding import Finding, agreement

NAME = "poison_record"
MENTIONS, LASTING = 40, 6.0
BURIED_WITHIN = 30.0


def run(stage: Stage, *, quick: bool) -> Finding:
    bodies = {f"no record of {stream} at all" for stream in topics.PARTITIONS}
    stage.expected_letters |= bodies
    with stage.storming(MENTIONS, LASTING):
        time.sleep(LASTING / 3)
        stage.ports.log.append(
            [
                Record(stream=stream, key=stage.world.names[0], value=f"no record of {stream} at all".encode())
                for stream in topics.PARTITIONS
            ]
        )
    wrong = stage.wrong()
    deadline = time.monotonic() + BURIED_WITHIN
    while (missing := bodies - _buried(stage)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return agreement(NAME, wrong + [f"no dead letter of {body!r}" for body in sorted(missing)], n=len(bodies))


def _buried(stage: Stage) -> set[str]:
    return {letter.body.decode(errors="replace") for letter in stage.ports.dead_letters.list(LETTERS_SHOWN)}
