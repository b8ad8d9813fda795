"""`cas_unknown_resolved`: the response to a conditional write is lost, and the write took effect once."""

import time
from dataclasses import replace
from threading import Thread

from benchmarks.chaos.scenario_stage import Stage
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.domain.bursts.sequencer import Head
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId

NAME = "cas_unknown_resolved"
MENTIONS, STORM_SECONDS = 60, 14.0
LOSS_SECONDS = 0.5
"""Time in which all responses of the store are lost."""
SUBJECT, ANOTHER = (Subject(Kind.MENTION, UserId(name)) for name in ("nobody", "nobody-else"))
ANSWER_LIMIT_SECONDS = 30.0


def run(stage: Stage, *, quick: bool) -> Finding:
    """Lose the response of a single swap, whose result can be checked, and then responses in a storm."""
    wrong, proxy = _swapped_once(stage), stage.engines.proxies["cassandra"]
    with stage.storming(MENTIONS, STORM_SECONDS) as storm:
        for _ in range(3 if quick else 6):
            time.sleep(1.5)
            proxy.drops_responses = True
            time.sleep(LOSS_SECONDS)
            proxy.drops_responses = False
            proxy.reset_all()
    if not proxy.dropped_bytes:
        wrong.append("no response was lost")
    return no_errors(NAME, wrong + stage.wrong(), n=1 + len(storm.sent.accepted))


def _swapped_once(stage: Stage) -> list[str]:
    """Retry the same swap after an unknown result, as a pump does with the same records."""
    heads, proxy = stage.ports.heads, stage.engines.proxies["cassandra"]
    heads.load([SUBJECT])  # connects
    heads.compare_and_set(
        [_first(stage, ANOTHER)]
    )  # prepares the statement, so that the lost response is that of the swap itself
    next_one = _first(stage, SUBJECT)
    swapping = Thread(target=_swap, args=(stage, next_one))
    proxy.drops_responses, before = True, proxy.dropped_bytes
    swapping.start()
    deadline = time.monotonic() + ANSWER_LIMIT_SECONDS
    while proxy.dropped_bytes == before and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(LOSS_SECONDS)
    proxy.drops_responses = False
    proxy.reset_all()
    swapping.join()
    again = _swap(stage, next_one)
    stored = heads.load([SUBJECT])[SUBJECT]
    problems = [] if again else ["the retried swap is not recognized as the writer's own"]
    return problems + ([] if stored == next_one else [f"the stored head is {stored}"])


def _first(stage: Stage, subject: Subject) -> Head:
    return replace(Head.empty(subject), version=1, nonce=stage.ports.nonces.new(), applied={"lost/0": 1})


def _swap(stage: Stage, head: Head) -> bool:
    deadline = time.monotonic() + ANSWER_LIMIT_SECONDS
    while True:
        try:
            return list(stage.ports.heads.compare_and_set([head])) == [True]
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
