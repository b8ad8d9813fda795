"""Measures accepting, routing and numbering events, and the fan-outs of a storm of 10,000 mentions."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.costs_and_figures import Figure, Spread
from benchmarks.fanout.measured_notifier import FanoutStage, staged
from notifier import topics
from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.codec import unpack
from notifier.devkit.check import delivery_latency
from notifier.devkit.check.expected_result import max_fanouts_per_minute
from notifier.devkit.check.finding_and_quantiles import at_least, at_most, quantile
from notifier.devkit.check.http_client import HttpClient
from notifier.devkit.check.mention_storm import SOURCE, Tweet, request_body
from notifier.devkit.fixture.world import World, user
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.events_and_mentions import Event, EventId, Mention
from notifier.domain.ids import Subject, UserId

P0_FOLLOWERS = 10_000_000
P0_P95_LIMIT_SECONDS, ACCEPT_MS, ROUTER_MS, MENTIONS_PER_S, STORM_FANOUTS = 1.0, 10.0, 10.0, 500.0, 3

BURSTS = 5
STEADY_EVENTS, STEADY_EVENTS_QUICK, STEADY_INTERVAL_SECONDS = 2_500, 1_500, 0.02
"""Single events at a constant rate, after earlier deliveries are done. They take about a minute, the collapse window of
such a celebrity.

The first event opens a burst, as one event of every minute does. During the 0.3 s of its fan-out each event waits
longer. With only a few hundred events the 99th percentile would measure nothing else.
"""
STORM_MENTIONS = 10_000
EVENTS_PER_BATCH = 100
CELEBRITIES = 500
TIMEOUT_SECONDS = 60.0

_RECORDS = "SELECT appended_at, value FROM records WHERE partition LIKE ?"


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    world = World(universe=P0_FOLLOWERS, followers=P0_FOLLOWERS, celebrities=1, seed=1)
    with staged(folder / "usual", world, tell=tell, collapse="PT1S") as stage:
        tell("one mention with 10,000,000 followers")
        figures = [_p0(stage)]
        tell("events at a constant pace")
        figures += _steady(stage, folder / "usual", STEADY_EVENTS_QUICK if quick else STEADY_EVENTS)
    with staged(folder / "storm", world, tell=tell) as stage:
        tell(f"{STORM_MENTIONS:,} mentions of one celebrity")
        figures.append(_storm(stage))
    small = World(universe=200_000, followers=2_000, celebrities=CELEBRITIES, seed=1)
    with staged(folder / "many", small, tell=tell, threshold=1) as stage:
        tell(f"mentions of {CELEBRITIES} celebrities")
        figures.append(_throughput(stage, 4_000 if quick else 10_000))
    return figures


def _p0(stage: FanoutStage) -> Figure:
    all_waits, rounds = [], []
    for _ in range(BURSTS):
        progress = stage.wait(stage.burst_of(stage.mention(stage.world.names[0])[0]), TIERS, TIMEOUT_SECONDS)
        waits = delivery_latency.slice_latencies([progress], [Tier.P0])
        all_waits += waits
        rounds.append(delivery_latency.p95(waits))
        time.sleep(1.2)  # the collapse window of this stage
    finding = at_most(
        "p0_p95_s",
        delivery_latency.p95(all_waits),
        P0_P95_LIMIT_SECONDS,
        unit="s",
        n=delivery_latency.row_count(all_waits),
    )
    return Figure(finding=finding, ours=Spread.of(rounds))


def _steady(stage: FanoutStage, folder: Path, events: int) -> list[Figure]:
    stage.await_idle(TIMEOUT_SECONDS)
    seconds = []
    for number in range(events):
        body, kind = request_body([_tweet(f"steady-{number}", number, stage.world.names[0])])
        seconds.append(stage.wire.post("/v1/events", body, kind).seconds)
        time.sleep(STEADY_INTERVAL_SECONDS)
    time.sleep(1.0)  # time to route the last event
    routed = _routed(folder)
    return [_p99("accept_p99_ms", seconds, ACCEPT_MS), _p99("router_p99_ms", routed, ROUTER_MS)]


def _p99(name: str, seconds: Sequence[float], limit: float) -> Figure:
    milliseconds = [s * 1000 for s in seconds]
    finding = at_most(name, quantile(milliseconds, 0.99), limit, unit="ms", n=len(seconds))
    return Figure(finding=finding, ours=Spread.of(milliseconds, "ms"))


def _routed(folder: Path) -> list[float]:
    """Return the seconds from each event's record to the last record made from it, by the log's time stamps."""
    files = Files.at(folder)
    with files.log.read() as c:
        accepted = c.execute(_RECORDS, (f"{topics.MENTIONS}/%",)).fetchall()
        lanes = [c.execute(_RECORDS, (f"{s}/%",)).fetchall() for s in topics.LANE_STREAM.values()]
    files.close()
    last: dict[EventId, int] = {}
    for at, value in (record for lane in lanes for record in lane):
        event = unpack(Mention, value).event
        last[event] = max(at, last.get(event, 0))
    events = [(at, unpack(Event, value).id) for at, value in accepted]
    return [(last.get(event, at + 60_000) - at) / 1000 for at, event in events if event.id.startswith("steady")]


def _storm(stage: FanoutStage) -> Figure:
    began = time.monotonic()
    tweets = [_tweet(f"storm-{i}", i, stage.world.names[0]) for i in range(STORM_MENTIONS)]
    _send(stage, tweets, threads=2)
    _numbered(stage, tweets)
    took = time.monotonic() - began
    bursts = list(stage.ports.store_scan.bursts())
    assert sum(b.count for b in bursts if b.key.subject == Subject.parse("mention:nova")) == STORM_MENTIONS
    detail = f"{STORM_MENTIONS:,} mentions of one celebrity with {stage.world.followers:,} followers in {took:.0f} s"
    finding = at_most(
        "storm_fanouts", max_fanouts_per_minute(bursts), STORM_FANOUTS, unit="fan-outs", n=STORM_MENTIONS, detail=detail
    )
    return Figure(finding=finding, ours=Spread.of([took]))


def _throughput(stage: FanoutStage, mentions: int) -> Figure:
    """Measure from the first request to the last mention that has its burst. Deliveries go on meanwhile."""
    names = stage.world.names
    tweets = [_tweet(f"many-{i}", i, names[i % len(names)]) for i in range(mentions)]
    began = time.monotonic()
    _send(stage, tweets, threads=2)
    accepted = time.monotonic() - began
    _numbered(stage, tweets)
    rate = mentions / (time.monotonic() - began)
    detail = f"{mentions:,} mentions of {len(names)} celebrities; all accepted after {accepted:.1f} s"
    finding = at_least("mentions_per_s", rate, MENTIONS_PER_S, unit="1/s", n=mentions, detail=detail)
    return Figure(finding=finding, ours=Spread.of([rate], "1/s"))


def _send(stage: FanoutStage, tweets: Sequence[Tweet], *, threads: int) -> None:
    def send(bundle: Sequence[Tweet]) -> None:
        wire = HttpClient(url=stage.instance.url, bearer=stage.instance.service_key)
        body, kind = request_body(bundle)
        answer = wire.post("/v1/events", body, kind)
        wire.close()
        assert answer.status == 202, answer

    bundles = [tweets[at : at + EVENTS_PER_BATCH] for at in range(0, len(tweets), EVENTS_PER_BATCH)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(send, bundles))


def _numbered(stage: FanoutStage, tweets: Sequence[Tweet]) -> None:
    """Wait until every mention has a burst for the account's followers and one for the account itself."""
    deadline, waiting = time.monotonic() + TIMEOUT_SECONDS, list(tweets)
    while waiting:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(waiting)} mentions have no burst after {TIMEOUT_SECONDS:g} s")
        while waiting and len(stage.ports.bursts.outcomes(SOURCE, waiting[-1].id)) == 2:
            waiting.pop()
        time.sleep(0.05)


def _tweet(id: str, number: int, name: UserId) -> Tweet:
    return Tweet(id=id, author=user(number), mentioned=(name,), protected=False)
