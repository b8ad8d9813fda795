"""Measures the senders' transport: CPU time per request, rate at a distance, and memory."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from os import getpid
from pathlib import Path
from statistics import median

from benchmarks.costs_and_figures import Cost, Figure, Spread, cost, unjudged
from benchmarks.fanout.suite import Parts
from benchmarks.process_stats import resident_mb
from benchmarks.push.goaway import DEVICES, GOAWAY_AFTER, parting
from benchmarks.push.leanest_sender import LeanestSender
from benchmarks.push.sample_apns_requests import accepts, posts
from notifier.adapters.http2 import Http2Limits, Http2Transport
from notifier.devkit.check.finding_and_quantiles import at_least, at_most
from notifier.devkit.http2.connection import Http2Behavior
from notifier.ports.push import Post, Reply
from tests.support.certificate_authority import Authority
from tests.support.http2_server_process import ServerProcess, server_process

SENDS, SENDS_QUICK = 100_000, 40_000
ROUNDS, ROUNDS_QUICK = 5, 3
WARM_UP_SENDS = 10_000
"""Sends that are not counted, which open the connections."""
CONNECTIONS = Http2Limits(max_connections=6)
"""50,000 sends per second with a latency of 50 ms are 2,500 in flight. One connection carries 1,000."""
DISTANT_LATENCY = timedelta(milliseconds=50)
DISTANT_RATIO = 0.8
CPU_US = 100.0
"""Less than a fifth of the 544 us that aioapns 4.0 took for one request. Another part measures aioapns."""
LONG_RUN_SENDS, LONG_RUN_SENDS_QUICK = 1_000_000, 200_000
CACHE_FILLING_SENDS = 100_000
"""Number of sends that fill the caches of a process."""
GROWTH_MB = 4.0


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    many, rounds = (SENDS_QUICK, ROUNDS_QUICK) if quick else (SENDS, ROUNDS)
    with (
        server_process(accepts) as server,
        closing(Http2Transport(limits=CONNECTIONS, allow_plaintext=True)) as transport,
    ):
        tell(f"{rounds} rounds of {many:,} sends: ours, the leanest sender, and ours with latency, in turns")
        costs = _costs(server, transport, many, rounds)
        tell(f"{LONG_RUN_SENDS_QUICK if quick else LONG_RUN_SENDS:,} sends in sequence")
        grown = _growth(server, transport, LONG_RUN_SENDS_QUICK if quick else LONG_RUN_SENDS)
    tell("the same over TLS")
    secure = _secure(folder, many, rounds)
    tell(f"{DEVICES:,} devices, and a GOAWAY at every {GOAWAY_AFTER:,}th request")
    return [*_figures(costs, many), secure, grown, parting(cuts=False), parting(cuts=True)]


@dataclass(slots=True)
class Costs:
    ours: list[Cost] = field(default_factory=list)
    away: list[Cost] = field(default_factory=list)
    floor: list[Cost] = field(default_factory=list)


def _costs(server: ServerProcess, transport: Http2Transport, many: int, rounds: int) -> Costs:
    costs = Costs()
    floor = LeanestSender(next(iter(posts(server.origin, 1))))
    with closing(floor):
        _sent(transport, posts(server.origin, WARM_UP_SENDS))
        for _ in range(rounds):
            costs.ours.append(cost(lambda: _sent(transport, posts(server.origin, many))))
            costs.floor.append(cost(lambda: floor.send(many)))
            server.behave(Http2Behavior(latency=DISTANT_LATENCY))
            costs.away.append(cost(lambda: _sent(transport, posts(server.origin, many))))
            server.behave(Http2Behavior())
    return costs


def _secure(folder: Path, many: int, rounds: int) -> Figure:
    authority = Authority.create(folder, "authority")
    with (
        server_process(accepts, certificate=authority.server()) as server,
        closing(Http2Transport(ca_file=authority.file)) as transport,
    ):
        _sent(transport, posts(server.origin, WARM_UP_SENDS))
        costs = [cost(lambda: _sent(transport, posts(server.origin, many))) for _ in range(rounds)]
    spread = Spread.of([cost_.processor / many * 1e6 for cost_ in costs], "us")
    speed = median(many / cost_.seconds for cost_ in costs)
    return unjudged("transport_cpu_us_per_send{tls}", spread, rounds, f"{speed:,.0f} sends/s")


def _sent(transport: Http2Transport, requests: Iterable[Post]) -> None:
    """Raises AssertionError if a request isn't accepted."""
    for post, answer in transport.exchange(requests):
        if not (isinstance(answer, Reply) and answer.status == 200):
            raise AssertionError(f"{post.path} got {answer}")


def _figures(costs: Costs, many: int) -> list[Figure]:
    ours, floor = ([cost_.processor / many * 1e6 for cost_ in side] for side in (costs.ours, costs.floor))
    near, away, lean = ([many / cost_.seconds for cost_ in side] for side in (costs.ours, costs.away, costs.floor))
    ratios = [far / close for close, far in zip(near, away, strict=True)]
    spread, against = Spread.of(ours, "us"), Spread.of(floor, "us")
    detail = f"CPU time of the sender; leanest sender {against.median:.1f} us, without reading responses"
    distance = f"at {DISTANT_LATENCY.microseconds // 1000} ms"
    far = f"{median(away):,.0f} sends/s {distance} against {median(near):,.0f} without delay"
    return [
        Figure(
            finding=at_most("transport_cpu_us_per_send", spread.median, CPU_US, unit="us", n=len(ours), detail=detail),
            ours=spread,
            baseline=against,
        ),
        unjudged("transport_sends_per_s", Spread.of(near, "1/s"), len(near), f"leanest sender: {median(lean):,.0f}"),
        Figure(
            finding=at_least(
                "latency_50ms_ratio", median(ratios), DISTANT_RATIO, unit="ratio", n=len(ratios), detail=far
            ),
            ours=Spread.of(away, "1/s"),
            baseline=Spread.of(near, "1/s"),
        ),
    ]


def _growth(server: ServerProcess, transport: Http2Transport, many: int) -> Figure:
    _sent(transport, posts(server.origin, CACHE_FILLING_SENDS))
    before = resident_mb(getpid())
    _sent(transport, posts(server.origin, many))
    after = resident_mb(getpid())
    detail = f"{before:.1f} MB before {many:,} sends, {after:.1f} MB after"
    return Figure(finding=at_most("memory_flat", after - before, GROWTH_MB, unit="MB", n=many, detail=detail))


FIGURES = (
    "transport_cpu_us_per_send",
    "transport_cpu_us_per_send{tls}",
    "transport_sends_per_s",
    "latency_50ms_ratio",
    "memory_flat",
    "goaway_graceful",
    "goaway_cut",
)
PARTS: Parts = {"transport": (run, FIGURES)}
