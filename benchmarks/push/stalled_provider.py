"""`provider_stalled_rows_unaffected`: one provider answers nobody; rows, badges and others' alerts are in time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.fanout.stage import rows_of, staged
from benchmarks.push.arrivals import Heard, Told
from benchmarks.rounds import Figure
from notifier.devkit.check.finding import Finding, agreement, quantile
from notifier.devkit.check.http_client import HttpClient, patiently
from notifier.devkit.check.latency_report import VIP_PUSH_P95_S
from notifier.devkit.fixture.users import platform
from notifier.devkit.fixture.world import World, user
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.slice import Step
from notifier.domain.ids import Member, Platform

NAME = "provider_stalled_rows_unaffected"
STALLED = Platform.FCM
WORLD = World(universe=60_000, followers=60_000, celebrities=1, seed=1)
TIERS = (Tier.P0, Tier.P1)
BURSTS, BURSTS_QUICK = 10, 3
ROWS_S = 5.0
"""Of P1, as promised; alerts of both tiers are judged as VIPs' are."""
WITHIN = 60.0
TABS = 5


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    settings: dict[str, Any] = {
        "push_hourly": 0,
        "push_daily": 0,
        "push_fakes": "on",
        "push_fake_script": f"{STALLED}.stall",
    }
    with staged(folder, WORLD, tell=tell, collapse="PT0S", **settings) as stage:
        heard, every = Heard(stage=stage, tiers=TIERS), list[Told]()
        tell(f"bursts, while {STALLED} answers nobody")
        for _ in range(BURSTS_QUICK if quick else BURSTS):
            told = heard.mention(WORLD.names[0])
            every.append(told)
            stage.wait(told.burst.key, TIERS, WITHIN)
            others = frozenset(m for m in told.due if platform(m) is not STALLED)
            heard.wait(lambda t=told, o=others: o <= heard.people(t), WITHIN, f"Alerts of {told.burst.key}")  # type: ignore[misc] # bound now
        wrong = [*_rows(heard, every), *_badges(heard, every), *_stalls(heard, every)]
        return [Figure(finding=finding(every, heard, wrong))]


def finding(every: Sequence[Told], heard: Heard, wrong: Sequence[str]) -> Finding:
    waits = list(_waits(every, heard))
    late = quantile(waits, 0.95)
    if late > VIP_PUSH_P95_S:
        wrong = [*wrong, f"alerts of the others took {late:.1f} s, and {VIP_PUSH_P95_S:g} are allowed"]
    found = agreement(NAME, wrong, n=len(waits))
    words = f"{len(waits):,} alerts by the other two, {late:.2f} s at the 95th percentile"
    return replace(found, detail=words) if found.ok else found


def _waits(every: Sequence[Told], heard: Heard) -> Iterator[float]:
    """Seconds from the acceptance of each mention, by the providers that answer."""
    accepted = {told.place: told.burst.accepted_at for told in every}
    for line in heard.lines():
        if line.platform != STALLED and line.place in accepted:
            yield (line.at - accepted[line.place]).total_seconds()


def _rows(heard: Heard, every: Sequence[Told]) -> Iterator[str]:
    for told in every:
        account = heard.stage.account(told.burst.key)
        assert account is not None
        ended: list[datetime] = [one.ended.at for one in rows_of(account, TIERS) if one.ended]
        took = (max(ended) - told.burst.accepted_at).total_seconds()
        if took > ROWS_S:
            yield f"rows of {told.burst.key} took {took:.1f} s, and {ROWS_S:g} are allowed"


def _badges(heard: Heard, every: Sequence[Told]) -> Iterator[str]:
    """Of some whose provider stalls: they are told of nothing, and find it all."""
    some: list[Member] = [m for m in sorted(every[0].due) if platform(m) is STALLED][:TABS]
    for member in some:
        wire = HttpClient(url=heard.stage.instance.url, bearer=heard.stage.token(user(member)))
        badge = patiently(wire, "/v1/inbox/unread").body
        wire.close()
        if badge["count"] != len(every):
            yield f"u{member} has {badge['count']} unread of {len(every)}"
    if not some:
        yield "nobody's provider stalls"


def _stalls(heard: Heard, every: Sequence[Told]) -> Iterator[str]:
    """Else nothing is proved."""
    for told in every:
        account = heard.stage.account(told.burst.key)
        pieces = account.standings.items() if account else ()
        if not any(piece.step is Step.of(STALLED) and not standing.ended for piece, standing in pieces):
            yield f"{told.burst.key} waits for no answer of {STALLED}"
