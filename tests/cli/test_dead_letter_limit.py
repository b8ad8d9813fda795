"""The dead-letter limit on the embedded profile: a bad deployment stops one lane until resumed."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event as Signal
from threading import Thread
from typing import Any

import pytest

from notifier import topics
from notifier.cli.commands.send_events import follow_event, mention_event
from notifier.cli.supervisor.pump_consumers_and_jobs import run
from notifier.config import Settings
from notifier.domain.bursts.burst import RETENTION
from notifier.domain.delivery.dead_letter_limit import DeadLetterLimit
from notifier.domain.ids import Kind, Subject, UserId
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports
from notifier.ports.leases_queues_throttles_clock import Epochs
from notifier.profiles import choose
from notifier.wiring.shared_parts import System, build_system
from tests.cli.conftest import Notifier
from tests.cli.running_service import until
from tests.support.example_event_and_acceptance import accept

LANE = topics.FOLLOWS
WITHIN = 60.0
"""Seconds; an idle machine needs one."""
ALLOWED = DeadLetterLimit().in_a_row
NOVA = Subject(Kind.MENTION, UserId("nova"))


@dataclass(frozen=True, slots=True)
class BadEpochs:
    """Epochs of a deployment whose graph indexer fails on every record."""

    epochs: Epochs

    def begin(self, name: str) -> int:
        if name == "graph_indexer":
            raise KeyError("follower_id")
        return self.epochs.begin(name)


def good_release(ports: Ports) -> Ports:
    return ports


def bad_release(ports: Ports) -> Ports:
    return replace(ports, epochs=BadEpochs(ports.epochs))


@dataclass(slots=True)
class Role:
    """The `pump` role in a thread, on a data folder."""

    system: System
    beats: list[None] = field(default_factory=list)

    @property
    def ports(self) -> Ports:
        return self.system.ports

    @contextmanager
    def running(self) -> Iterator[None]:
        stopping, up, interval = Signal(), Signal(), sys.getswitchinterval()
        thread = Thread(target=run, args=(self.system, stopping, up.set, lambda: self.beats.append(None)))
        thread.start()
        try:
            assert up.wait(WITHIN)
            yield
        finally:
            stopping.set()
            thread.join()
            sys.setswitchinterval(interval)

    def accept(self, event: Mapping[str, object]) -> None:
        accept(self.system, event)

    def dead_lettered(self) -> int:
        return len(self.ports.dead_letters.list(1_000))

    def waiting(self) -> int:
        return len(list(self.ports.log.read_uncommitted(LANE, topics.GROUPS[LANE], 1_000)))

    def gauge(self) -> float | None:
        return self.system.metrics.registry.get_sample_value("notifier_lane_stopped", {"lane": LANE})

    def wait_for_stop(self) -> None:
        until(lambda: self.gauge() == 1, WITHIN)

    def lag(self) -> float | None:
        return self.system.metrics.registry.get_sample_value("notifier_lag_records", {"stream": LANE})

    def bursts(self) -> int:
        return len(self.ports.recent_bursts.opened_since(self.ports.clock.now() - RETENTION, None, 10))

    def keeps_beating(self) -> bool:
        """Return whether all loops have stepped lately. A silent role would be killed and restarted."""
        before = len(self.beats)
        until(lambda: len(self.beats) > before + 1, WITHIN)
        return True


@contextmanager
def deployment(folder: Path, release: Callable[[Ports], Ports]) -> Iterator[Role]:
    settings = Settings(data=folder, threshold=500)
    profile = choose(settings)
    try:
        ports, owner = release(profile.ports()), release.__name__
        yield Role(build_system(ports=ports, settings=settings, metrics=Metrics(), owner=owner))
    finally:
        profile.close()


def followers(role: Role, names: Sequence[str]) -> list[str]:
    """Return the names that follow nova according to the rows of the store."""
    accounts = role.ports.directory.accounts([UserId(name) for name in names])
    pairs = {name: (NOVA, accounts[UserId(name)].member) for name in names}
    follows = role.ports.follows.read_current(pairs.values())
    return [name for name, pair in pairs.items() if follows.get(pair)]


def non_followers(role: Role, count: int) -> list[str]:
    names = [f"u{number}" for number in range(1, 500)]
    known = set(followers(role, names))
    return [name for name in names if name not in known][:count]


def run_json(notifier: Notifier, folder: Path, *arguments: str) -> Any:
    return json.loads(notifier(*arguments, "--json", "--data", str(folder)).stdout)


@pytest.mark.timeout(300)
def test_dlq_limit_stops_lane_until_resume_without_loss(small_world: Path, notifier: Notifier) -> None:
    folder, now = small_world, datetime.now(UTC)
    with deployment(folder, bad_release) as bad:
        newcomers = non_followers(bad, ALLOWED + 10)
        for number, name in enumerate(newcomers):
            bad.accept(follow_event(name, "nova", end=False, sequence=number + 1, now=now))
        with bad.running():
            bad.wait_for_stop()
            # All other lanes go on, and the role stays alive.
            bad.accept(mention_event("e1", "ada", ("nova",), text="hi", protected=False, now=now))
            until(lambda: bad.bursts() > 0, WITHIN)
            assert bad.keeps_beating()
            until(lambda: (bad.waiting(), bad.lag()) == (10, 10), WITHIN)
            assert bad.dead_lettered() == ALLOWED
    for _ in range(2):  # the bad deployment in a restart loop
        with deployment(folder, bad_release) as bad:
            with bad.running():
                bad.wait_for_stop()
                assert bad.keeps_beating()
            assert (bad.dead_lettered(), bad.waiting()) == (ALLOWED, 10)

    [lane] = run_json(notifier, folder, "top", "--every", "0.05")["stopped_lanes"]
    assert (lane["lane"], lane["limit"], lane["cause"]) == (LANE, "in_a_row", "KeyError: 'follower_id'")
    checks = {check["name"]: check for check in run_json(notifier, folder, "doctor")["checks"]}
    assert (checks["stopped_lanes"]["ok"], checks["stopped_lanes"]["value"]) == (False, 1)
    assert notifier("doctor", "--data", str(folder)).exit_code == 1

    with deployment(folder, good_release) as good:
        with good.running():
            good.wait_for_stop()
            assert good.waiting() == 10  # a fixed deployment also waits for the resume
            assert run_json(notifier, folder, "deadletters", "resume", LANE, "--reason", "release 42")["resumed"]
            until(lambda: good.waiting() == 0 and good.gauge() == 0, WITHIN)
        # Each record was dead-lettered or handled, in the order of the stream.
        assert followers(good, newcomers) == newcomers[ALLOWED:]
        assert good.dead_lettered() == ALLOWED
    assert notifier("doctor", "--data", str(folder)).output.count("No lane is stopped.") == 1
