"""Measures a provider's GOAWAY during an alert: no duplicates, and possible arrivals are known."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta

from benchmarks.costs_and_figures import Figure
from benchmarks.push.sample_apns_requests import accepts, posts
from notifier.adapters.http2 import Http2Transport
from notifier.devkit.check.finding_and_quantiles import no_errors
from notifier.devkit.http2.connection import Http2Behavior
from notifier.devkit.http2.server import serving
from notifier.ports.push import NoReply, Post, Reply

DEVICES, GOAWAY_AFTER = 3_000, 1_000
LATENCY = timedelta(milliseconds=2)


@dataclass(slots=True)
class ArrivalCount:
    """Counts the requests per device."""

    paths: Counter[str] = field(default_factory=Counter)

    def __call__(self, post: Post) -> Reply:
        self.paths[post.path] += 1
        return accepts(post)


def parting(*, cuts: bool) -> Figure:
    arrived = ArrivalCount()
    behavior = Http2Behavior(goaway_after=GOAWAY_AFTER, cut_after=GOAWAY_AFTER if cuts else None, latency=LATENCY)
    with serving(arrived, behavior) as server, closing(Http2Transport(allow_plaintext=True)) as transport:
        answers = {post.path: answer for post, answer in transport.exchange(posts(server.origin, DEVICES))}
    name = "goaway_cut" if cuts else "goaway_graceful"
    finding = no_errors(name, wrong(answers, arrived.paths, cuts=cuts), n=len(answers))
    accepted = sum(isinstance(answer, Reply) for answer in answers.values())
    came = f"{accepted:,} of {DEVICES:,} accepted, {len(answers) - accepted:,} unknown"
    detail = f"{came}, on {server.counts.connections} connections"
    return Figure(finding=replace(finding, detail=detail) if finding.ok else finding)


def wrong(answers: Mapping[str, Reply | NoReply], arrived: Mapping[str, int], *, cuts: bool) -> Iterator[str]:
    """Compare the response for each device with the number of its requests."""
    for path, answer in answers.items():
        times = arrived.get(path, 0)
        if times > 1:
            yield f"{path} got {times} requests"
        match answer:
            case Reply():
                if not times:
                    yield f"{path} was accepted, but got no request"
            case NoReply(may_have_arrived=False):
                yield f"{path} was abandoned: {answer.reason}"
            case NoReply():
                if not (cuts and times):
                    yield f"{path} is unknown, but {'it got no request' if cuts else 'no connection was cut'}"
    yield from (f"{path} got a request without a result" for path in arrived if path not in answers)
