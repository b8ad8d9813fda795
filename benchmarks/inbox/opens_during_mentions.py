"""Measures opens under load: 500 mentions a second, many of an award show."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Event, Thread

import numpy as np

from benchmarks.costs_and_figures import Figure, unjudged
from benchmarks.inbox.cases import BARE_PAGE, WARM
from benchmarks.inbox.figures import REDIS, STORE, LoadReading, calls, cpu, ratio, right_answers
from benchmarks.inbox.http_requests_and_load_loops import post, write_requests
from benchmarks.inbox.json_line_process import HelperFailed, LoadClient
from benchmarks.inbox.latency_by_request_rate import CONNECTIONS, in_ms
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.inbox.population import Population, zipf
from benchmarks.inbox.shared_stage_and_case_rounds import SharedInboxStage, played
from notifier.devkit.check.finding_and_quantiles import Finding
from notifier.devkit.check.mention_storm import BATCH_CONTENT_TYPE, Tweet
from notifier.devkit.fixture.world import user

MENTIONS_PER_S, MENTIONS_PER_BATCH = 500, 25
AWARD_SHARE = 0.2
"""Share of the mentions that name the award show."""
LEAD_SECONDS = 2.0
"""Time for which mentions are sent before the measurement begins."""
JOB_SECONDS = 2.0
"""Duration of one job of the sender. A short one lets the sender end soon after the measurement."""
MAX_SENDING_SECONDS = 200.0
"""Time for which the sender has events. Afterwards it sends the same ones again."""
SENDERS = 16
LATENCY_S, LATENCY_QUICK_S = 8.0, 4.0
REDIS_CALLS = 0.2
"""Limit of round trips to Redis per open."""
LATENCY_SHARE = 0.5
"""Share of the maximum rate under load at which latency is measured."""


def names(profile: str) -> tuple[str, ...]:
    return (
        f"inbox_load_ratio{{{profile}}}",
        f"inbox_load_cpu_us{{{profile}}}",
        f"inbox_load_redis_calls{{{profile}}}",
        f"inbox_load_store_calls{{{profile}}}",
        f"inbox_load_p99_ms{{{profile}}}",
        f"inbox_load_mentions_per_s{{{profile}}}",
        f"inbox_right_answers{{{profile},load}}",
    )


def run(shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    stage, profile = shared.warm_stage(tell), shared.profile
    lasting = LATENCY_QUICK_S if quick else LATENCY_S
    tell(f"starting {MENTIONS_PER_S} mentions per second")
    with mentioned(stage, folder) as mentions:
        slices = dict(played(stage, [BARE_PAGE, WARM], quick=quick, tell=tell))
        rate = LATENCY_SHARE * median(slice_.per_s for slice_ in slices[WARM.name])
        tell(f"half of the maximum under load: {rate:,.0f} opens/s")
        timed = stage.measure(WARM, connections=CONNECTIONS, rate=rate, seconds=lasting)
    mine, bare = slices[WARM.name], slices[BARE_PAGE.name]
    return [
        ratio(f"inbox_load_ratio{{{profile}}}", mine, bare, None),
        cpu(f"inbox_load_cpu_us{{{profile}}}", mine, bare),
        calls(f"inbox_load_redis_calls{{{profile}}}", mine, REDIS, REDIS_CALLS),
        calls(f"inbox_load_store_calls{{{profile}}}", mine, STORE, None),
        unjudged(
            f"inbox_load_p99_ms{{{profile}}}", in_ms([timed], "p99"), timed.reading.opens, f"at {rate:,.0f} opens/s"
        ),
        Figure(finding=_accepted(f"inbox_load_mentions_per_s{{{profile}}}", mentions)),
        right_answers(
            f"inbox_right_answers{{{profile},load}}", [BARE_PAGE, WARM], {**slices, WARM.name: [*mine, timed]}
        ),
    ]


@dataclass(slots=True)
class Mentions:
    """Measurements of the sender of mentions so far."""

    readings: list[LoadReading] = field(default_factory=list)
    failure: str = ""


@contextmanager
def mentioned(stage: InboxStage, folder: Path) -> Iterator[Mentions]:
    """Send mentions in an open loop, from a separate process, during the block."""
    place, rate = folder / "mentions", MENTIONS_PER_S / MENTIONS_PER_BATCH
    write_requests(place, batches(stage.population, stage.instance.service_key, int(rate * MAX_SENDING_SECONDS)))
    mentions, over = Mentions(), Event()

    def send() -> None:
        try:
            while not over.is_set():
                sent = sum(reading.opens for reading in mentions.readings)
                job = {"connections": SENDERS, "rate": rate, "seconds": JOB_SECONDS, "first": sent, "seed": sent}
                mentions.readings.append(sender.run(place, stage.port(WARM), **job))
        except HelperFailed as error:  # reported in the figure: it ends the mentions and nothing else
            mentions.failure = str(error)

    sender = LoadClient.new(folder, "mentions")
    with sender.process:
        thread = Thread(target=send, name="mentions", daemon=True)
        thread.start()
        try:
            time.sleep(LEAD_SECONDS)
            yield mentions
        finally:
            over.set()
            thread.join()


def batches(population: Population, key: str, count: int) -> Iterator[bytes]:
    """Yield requests with a batch of mentions each, every mention with its own event."""
    random_source = np.random.default_rng(population.seed)
    weights = zipf(population.subjects)
    picked = random_source.choice(population.subjects, size=(count, MENTIONS_PER_BATCH), p=weights)
    picked[random_source.random(picked.shape) < AWARD_SHARE] = 0
    for number, subjects in enumerate(picked.tolist()):
        tweets = [
            Tweet(
                id=f"load-{number}-{place}",
                author=user((number * MENTIONS_PER_BATCH + place) % population.end),
                mentioned=(population.names[subject],),
                protected=False,
            )
            for place, subject in enumerate(subjects)
        ]
        yield post("/v1/events", key, json.dumps([tweet.event() for tweet in tweets]).encode(), BATCH_CONTENT_TYPE)


def _accepted(name: str, mentions: Mentions) -> Finding:
    sent = sum(reading.opens for reading in mentions.readings)
    wrong = sum(reading.unexpected(202) for reading in mentions.readings)
    if mentions.failure or not sent:
        return Finding(name=name, ok=False, n=sent, detail=mentions.failure or "no batch was answered")
    value = sent * MENTIONS_PER_BATCH / sum(reading.seconds for reading in mentions.readings)
    detail = f"{wrong} of {sent} batches rejected; target {MENTIONS_PER_S} per second"
    return Finding(name=name, ok=not wrong, value=round(value, 1), unit="mentions/s", n=sent, detail=detail)
