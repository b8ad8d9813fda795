"""Checks quiet hours and late alerts on the flow with a simulated clock."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import time, timedelta
from pathlib import Path
from typing import Any

from benchmarks.costs_and_figures import Figure
from notifier import topics
from notifier.config import Settings
from notifier.consumer_loop import build_stream_processor
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.check.mention_storm import Tweet
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.ids import Kind, Member, Platform, Subject, UserId
from notifier.domain.push.alert import SummaryAlert
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.quiet_hours import QuietHours
from notifier.flow.intake.gateway import IntakeStatus
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports
from notifier.wiring.delivery import build_dispatcher, build_slice_worker
from notifier.wiring.shared_parts import System, build_system
from tests.support.example_event_and_acceptance import accept
from tests.support.simulator.durable_state import DurableState
from tests.support.simulator.population import THRESHOLD, Population

QUIET, STALE = "quiet_hours_held_then_one", "stale_collapsed"
NAMES = (QUIET, STALE)
NOVA = Subject(Kind.MENTION, UserId("nova"))
QUIET_USER, AWAKE = UserId("kim"), UserId("roy")
"""VIPs of the simulation with a phone each. Noon in UTC is nine in the evening for the first."""
NIGHT = AccountPreferencesPatch(quiet=QuietHours(start=time(21), end=time(5)), zone="Asia/Tokyo")
NIGHT_LENGTH = timedelta(hours=8)
LATENESS = timedelta(minutes=16)
BURSTS = 3
BURST_INTERVAL = timedelta(seconds=61)
ROUNDS = 120
SECOND = timedelta(seconds=1)
BY_HAND = "on the flow, with a simulated clock"


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    tell(BY_HAND)
    return [Figure(finding=_finding(QUIET, quiet())), Figure(finding=_finding(STALE, stale()))]


def _finding(name: str, wrong: Iterator[str]) -> Finding:
    finding = no_errors(name, wrong, n=BURSTS)
    return replace(finding, detail=f"{BURSTS} bursts, {BY_HAND}") if finding.ok else finding


def quiet() -> Iterator[str]:
    """Bursts at night make one alert in the morning. Users without quiet hours get each alert at once."""
    evening = SimulatedEvening()
    evening.state.people.patch_account(QUIET_USER, NIGHT)
    morning = evening.state.clock.now() + NIGHT_LENGTH
    evening.mentions()
    yield from evening.differences(AWAKE, [1] * BURSTS)
    evening.state.clock.advance(morning - SECOND * 10 - evening.state.clock.now())
    evening.work(5)
    yield from evening.differences(QUIET_USER, [])
    evening.work(ROUNDS)
    yield from evening.differences(QUIET_USER, [BURSTS])
    yield from evening.differences(AWAKE, [1] * BURSTS)


def stale() -> Iterator[str]:
    """Bursts held for more than a quarter of an hour make one alert per user."""
    evening = SimulatedEvening()
    evening.pause()
    evening.mentions()
    yield from evening.differences(AWAKE, [])
    evening.state.clock.advance(LATENESS)
    evening.work(ROUNDS)
    for who in (QUIET_USER, AWAKE):
        yield from evening.differences(who, [BURSTS])


@dataclass(slots=True)
class SimulatedEvening:
    """The simulator's users, with stages called directly."""

    state: DurableState = field(default_factory=DurableState)
    population: Population = field(init=False)
    system: System = field(init=False)

    def __post_init__(self) -> None:
        self.population = Population(self.state, crowd=0)
        settings, ports = Settings(threshold=THRESHOLD), _ports(self.state)
        self.system = build_system(ports=ports, settings=settings, metrics=Metrics(), owner="bench")

    def mentions(self) -> None:
        """Send mentions that open a burst each."""
        for n in range(BURSTS):
            tweet = Tweet(id=f"night-{n}", author=UserId("ada"), mentioned=(NOVA.owner,), protected=False)
            event = tweet.event() | {"time": self.state.clock.now().isoformat()}
            receipt = accept(self.system, event)
            assert receipt.status is IntakeStatus.ACCEPTED, receipt
            self._sequence()
            self.work(5)
            self.state.clock.advance(BURST_INTERVAL)

    def _sequence(self) -> None:
        """Route, number and publish everything in the log."""
        for stream in topics.PARTITION_COUNTS:
            reader = build_stream_processor(self.system, stream)
            while reader.step():
                pass
            reader.consumer.close()

    def work(self, rounds: int) -> None:
        """Run the dispatcher and workers, with a second between rounds."""
        dispatcher, work = build_dispatcher(self.system), build_slice_worker(self.system)
        for _ in range(rounds):
            dispatcher()
            for waiting in self.state.queue.waiting.values():
                taken = list(waiting)
                waiting.clear()
                for slice_ in taken:
                    work(slice_)
            self.state.clock.advance(SECOND)

    def pause(self) -> None:
        """Pause the slices of VIPs until they are late."""
        now = self.state.clock.now()
        pause = Throttle(
            id="t1", tier=Tier.P0, rate=None, reason="late", operator="amy", starts_at=now, ends_at=now + LATENESS
        )
        self.state.throttles.put(pause)

    def differences(self, who: UserId, wanted: list[int]) -> Iterator[str]:
        """Compare the numbers of bursts in the user's alerts with the expected numbers."""
        member, counts = Member(self.population.people[who].member), list[int]()
        for sent, device in self.state.phones.arrived:
            if device.member == member and sent.subject == NOVA:
                counts.append(sent.content.count if isinstance(sent.content, SummaryAlert) else 1)
        if counts != wanted:
            yield f"alerts of {who} cover {counts} bursts, expected {wanted}"


def _ports(state: DurableState) -> Ports:
    """Return the simulator's fakes as ports, matched by name."""
    ports: dict[str, Any] = {port.name: getattr(state, port.name, None) for port in fields(Ports)}
    ports |= {"recent_bursts": state.bursts, "random": lambda: 0.5}
    ports |= {"providers": {Platform.FCM: state.phones}, "platforms": [Platform.FCM]}
    return Ports(**ports)
