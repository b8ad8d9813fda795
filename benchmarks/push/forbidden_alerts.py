"""Checks users who must not get alerts, and the removal of devices."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.costs_and_figures import Figure
from benchmarks.fanout.measured_notifier import staged
from benchmarks.push.dropped_and_kept_devices import NAME as DROP
from benchmarks.push.dropped_and_kept_devices import DroppedDevices, is_gone
from benchmarks.push.expected_and_arrived_alerts import ArrivedAlerts, ExpectedAlerts
from benchmarks.push.ssrf import NAME as SSRF
from benchmarks.push.ssrf import blocked
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.check.http_client import HttpClient
from notifier.devkit.check.mention_storm import EVENT_CONTENT_TYPE, SOURCE
from notifier.devkit.fixture.world import World, user
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS
from notifier.domain.ids import Member
from notifier.domain.upstream.validation import DELETED_TYPE

TOMBSTONE, SEEN, CAP = "never_after_tombstone", "never_to_seen", "cap_respected"
NAMES = (TOMBSTONE, SEEN, DROP, CAP, SSRF)
WORLD = World(universe=60_000, followers=60_000, celebrities=1, seed=1)
TIERS = (Tier.P0, Tier.P1)
HOURLY = 5
"""The default."""
MORE = 6
"""Bursts after the first one with alerts: two more than the cap for an hour."""
SEEING = 3
"""Every third user opens the inbox before alerts are sent."""
TIMEOUT_SECONDS = 60.0


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    settings: dict[str, Any] = {
        "push_hourly": HOURLY,
        "push_fakes": "on",
        "push_fake_script": f"gone={is_gone.gone_share:.0%}",
    }
    with staged(folder, WORLD, tell=tell, collapse="PT0S", **settings) as stage:
        arrived, dropping = ArrivedAlerts(stage=stage, tiers=TIERS), DroppedDevices(stage=stage)
        dropping.register()
        tell("rows are written, alerts wait: some users open the inbox, and a burst is retracted")
        with held(arrived):
            seen, back = arrived.mention(WORLD.names[0]), arrived.mention(WORLD.names[0])
            _rows(arrived, seen, back)
            saw = _see(arrived, sorted(seen.due)[::SEEING])
            _take_back(arrived, back)
        stage.await_idle(TIMEOUT_SECONDS)
        first = arrived.of(seen), arrived.of(back)
        tell(f"{MORE} more bursts")
        more = [arrived.mention(WORLD.names[0]) for _ in range(MORE)]
        stage.await_idle(TIMEOUT_SECONDS)
        findings = [
            _tombstone(back, len(first[1])),
            _seen(seen, saw, arrived.people(seen)),
            dropping.finding(seen.due | frozenset().union(*(expected.due for expected in more))),
            _cap([seen, *more], saw, arrived),
            blocked(stage, seen.burst),
        ]
    return [Figure(finding=finding) for finding in findings]


@contextmanager
def held(arrived: ArrivedAlerts) -> Iterator[None]:
    """Suspend all alert workers during the block."""
    workers = [pid for step in PUSH_STEPS for pid in arrived.stage.instance.workers(str(step)).values()]
    _all(workers, signal.SIGSTOP)
    try:
        yield
    finally:
        _all(workers, signal.SIGCONT)


def _all(leaders: Collection[int], number: signal.Signals) -> None:
    for pid in leaders:
        with suppress(ProcessLookupError):
            os.killpg(pid, number)


def _rows(arrived: ArrivedAlerts, *every: ExpectedAlerts) -> None:
    for expected in every:
        arrived.stage.wait(expected.burst.key, TIERS, TIMEOUT_SECONDS)


def _see(arrived: ArrivedAlerts, members: Sequence[Member]) -> frozenset[Member]:
    """Open the inboxes of these users and mark everything as seen."""
    for member in members:
        who = user(member)
        wire = HttpClient(url=arrived.stage.instance.url, bearer=arrived.stage.token(who))
        page = wire.get("/v1/inbox").body
        answer = wire.put("/v1/inbox/seen", {"token": page["seen"]})
        wire.close()
        assert answer.status == 204, f"{who}: {answer}"
    return frozenset(members)


def _take_back(arrived: ArrivedAlerts, expected: ExpectedAlerts) -> None:
    body = event(expected.burst.tweet, expected.burst.opener)
    answer = arrived.stage.wire.post("/v1/events", json.dumps(body).encode(), EVENT_CONTENT_TYPE)
    assert answer.status == 202, answer
    bursts, key = arrived.stage.ports.bursts, expected.burst.key
    arrived.wait(lambda: bursts.read([key])[key].silent, TIMEOUT_SECONDS, f"retraction of {key}")


def event(tweet: str, author: str) -> Mapping[str, object]:
    head = {"specversion": "1.0", "type": DELETED_TYPE, "source": SOURCE, "id": f"back-{tweet}"}
    return {**head, "time": datetime.now(UTC).isoformat(), "data": {"tweet": tweet, "author": author}}


def _tombstone(back: ExpectedAlerts, rang: int) -> Finding:
    return no_errors(TOMBSTONE, [f"{rang} phones got an alert for {back.burst.key}"] if rang else [], n=len(back.due))


def _seen(seen: ExpectedAlerts, saw: Collection[Member], rang: Collection[Member]) -> Finding:
    """Check that users who saw the burst got no alert, and all others did."""
    wrong = [f"u{member} had seen it, but got an alert" for member in rang if member in saw]
    due = [member for member in seen.due if member not in saw and not is_gone(member)]
    wrong += [f"u{member} had not seen it, but got no alert" for member in due if member not in rang]
    return no_errors(SEEN, wrong, n=len(saw))


def _cap(every: Sequence[ExpectedAlerts], saw: Collection[Member], arrived: ArrivedAlerts) -> Finding:
    """Check that each user got alerts for all bursts, but for no more than the cap."""
    due = Counter(member for expected in every for member in expected.due if not is_gone(member))
    due -= Counter(member for member in saw if not is_gone(member))
    times = Counter(member for expected in every for member in arrived.people(expected))
    wrong = [
        f"u{member} got alerts for {times[member]} of {wanted} bursts"
        for member, wanted in due.items()
        if times[member] != min(wanted, HOURLY)
    ]
    return no_errors(CAP, wrong, n=sum(wanted > HOURLY for wanted in due.values()))
