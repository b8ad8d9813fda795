"""The stage of the scenarios: own engines, a small world, a notifier, and checks."""

import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from threading import Thread

from benchmarks.chaos.cached_store_scan import StoreScanReadOnce
from benchmarks.chaos.role_process import Role
from notifier.api.auth.authenticators import issue_token
from notifier.api.auth.service_and_installation_keys import installation_keys
from notifier.config import Settings
from notifier.devkit.check.check_alerts import AlertGuarantees, read_alerts
from notifier.devkit.check.check_inboxes import InboxCheck
from notifier.devkit.check.check_run import Report
from notifier.devkit.check.check_store import StoreCheck, poll_drained
from notifier.devkit.check.expected_result import ExpectedResult
from notifier.devkit.check.mention_storm import SOURCE, Storm, Tweet, tweets
from notifier.devkit.check.notifier_and_engine_processes import Engines, Instance, engines, migrate_patiently
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.fixture import sample_users_and_devices
from notifier.devkit.fixture.world import World
from notifier.devkit.fixture.world_loader_and_markers import (
    NO_ROLL_UP,
    ONE_API_PROCESS,
    WorldLoader,
    write_world_marker,
)
from notifier.domain.errors import NotRunning, StoreUnavailable, Unavailable
from notifier.ports.all_ports import Ports
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.profiles import Profile, choose

# Check of what users see after a scenario: some users of every class open their inboxes, page by page.

TOKEN_LIFETIME = timedelta(hours=1)
SAMPLE_DIVISOR = 4
"""Check every fourth user of the sample: worlds of scenarios are small, and there are many scenarios."""


def wrong_inboxes(url: str, settings: Settings, clock: Clock, world: World, truth: ExpectedResult) -> list[str]:
    """Return inboxes that differ from the expected ones, badges that differ from their lists, and duplicates."""
    keys, now = installation_keys(settings), clock.now()
    viewers = sample_users_and_devices.sample(world, 1)[::SAMPLE_DIVISOR]
    inboxes = InboxCheck(url=url, token=lambda user: issue_token(keys, user, now, TOKEN_LIFETIME), users=viewers)
    inboxes.open_all()
    return [*inboxes.differences(truth, {}), *inboxes.wrong_badges(), *inboxes.duplicates()]


WORLD = World(universe=120_000, followers=60_000, celebrities=12, seed=1)
"""Its accounts have so few followers that mentions need not collapse, so duplicated work is visible as an extra row."""
THRESHOLD = 1_000
ENVIRONMENT = {
    **NO_ROLL_UP,
    **ONE_API_PROCESS,
    "NOTIFIER_PROFILE": "cluster",
    "NOTIFIER_THRESHOLD": str(THRESHOLD),
    "NOTIFIER_COLLAPSE": "0",
}
SETTLE_TIMEOUT_SECONDS = 300.0
"""Time limit until everything is delivered. A slice that was lost with its worker is reissued within a minute."""
POLL_INTERVAL_SECONDS = 0.1
MAX_DEAD_LETTERS = 1_000


@dataclass(slots=True, kw_only=True)
class Stage:
    data: Path
    fault_engines: Engines | None
    """The engines, if scenarios can disturb them by name."""
    profile: Profile
    ports: Ports
    instance: Instance
    tell: Report
    settings: Settings
    random: Random
    """Random generator for the storms and for the times of faults."""
    world: World = WORLD
    accepted: list[Tweet] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Tweets that the API rejected for good. There must be none."""
    expected_letters: set[str] = field(default_factory=set)
    """Bodies of records that are expected to become dead letters."""

    @property
    def engines(self) -> Engines:
        assert self.fault_engines is not None
        return self.fault_engines

    @contextmanager
    def storming(self, mentions: int, lasting: float) -> Iterator[Storm]:
        """Run a storm during the block. All of its tweets are accepted or rejected when the block ends."""
        storm = self._storm(mentions, lasting)
        thread = Thread(target=storm, name="storm", daemon=True)
        thread.start()
        try:
            yield storm
        finally:
            thread.join()
            self._noted(storm)

    def send(self, mentions: int) -> list[Tweet]:
        """Send tweets at once. Return those that were accepted."""
        storm = self._storm(mentions, 0.0)
        storm()
        self._noted(storm)
        return storm.sent.accepted

    def new_tweets(self, mentions: int) -> list[Tweet]:
        return tweets(self.world, mentions, self.random.getrandbits(31))

    def _storm(self, mentions: int, lasting: float) -> Storm:
        return Storm(instance=self.instance, tweets=self.new_tweets(mentions), duration=lasting)

    def _noted(self, storm: Storm) -> None:
        self.accepted += storm.sent.accepted
        self.refused += storm.sent.refused

    def sequenced(self, sent: Sequence[Tweet], within: float = SETTLE_TIMEOUT_SECONDS) -> float:
        """Return the seconds until all tweets have their bursts. Raises NotRunning when it takes too long."""
        began, waiting = time.monotonic(), {tweet.id: tweet for tweet in sent}
        while not _sequenced(self.ports, waiting):
            if time.monotonic() > began + within:
                raise NotRunning(f"{len(waiting)} events have no burst after {within:g} s")
            time.sleep(POLL_INTERVAL_SECONDS)
        return time.monotonic() - began

    def wrong(self) -> list[str]:
        """Wait until everything is delivered.

        Then return all differences from the expected result, for all storms so far.
        """
        waiting, deadline = {tweet.id: tweet for tweet in self.accepted}, time.monotonic() + SETTLE_TIMEOUT_SECONDS
        while not poll_drained(self.ports.ledger, self.ports.deferred_bursts, self.ports.bursts, waiting):
            if time.monotonic() > deadline:
                unfinished = self.ports.ledger.unfinished_bursts()
                return [f"{len(waiting)} events without bursts, {len(unfinished)} unfinished bursts"]
            time.sleep(POLL_INTERVAL_SECONDS)
        while True:
            try:
                return self._compared()
            except StoreUnavailable:  # a store that has just restarted is slow to read a whole keyspace
                if time.monotonic() > deadline:
                    raise
                time.sleep(POLL_INTERVAL_SECONDS)

    def _compared(self) -> list[str]:
        outside = StoreCheck(
            store_scan=StoreScanReadOnce(store_scan=self.ports.store_scan),
            bursts_port=self.ports.bursts,
            world=self.world,
        )
        truth = outside.truth(self.accepted)
        findings = [outside.nothing_lost(truth, self.refused), outside.rows_equal_oracle(truth)]
        findings += [outside.totals_balance(truth), outside.distinct_rows(truth)]
        # Includes alerts of other instances, even of killed ones.
        alerts = list(read_alerts(self.data.parent.glob("*/alerts.ndjson")))
        promised = AlertGuarantees(hourly_cap=Settings().push.hourly, forbids_repeats=False, caps_are_exact=False)
        findings.append(outside.alerts_equal_oracle(alerts, promised))
        seen = wrong_inboxes(self.instance.url, self.settings, self.ports.clock, self.world, truth)
        return (
            [f"{finding.name}: {finding.detail}" for finding in findings if not finding.ok]
            + outside.duplicates()
            + seen
            + self._letters()
        )

    def _letters(self) -> list[str]:
        letters = self.ports.dead_letters.list(MAX_DEAD_LETTERS)
        return [
            f"unexpected dead letter of {letter.stage}: {letter.cause}"
            for letter in letters
            if letter.body.decode(errors="replace") not in self.expected_letters
        ]

    @contextmanager
    def another(
        self,
        *arguments: str,
        name: str,
        environment: Mapping[str, str] | None = None,
        clock: timedelta = timedelta(0),
    ) -> Iterator[Role]:
        """Run a role of another instance on the same engines, with its own folder, until the block ends."""
        folder = self.data.parent / name
        (folder / "services").mkdir(parents=True, exist_ok=True)
        shutil.copy(self.data / "services" / "settings.toml", folder / "services" / "settings.toml")
        named = {**ENVIRONMENT, "NOTIFIER_INSTANCE": name, **(environment or {})}
        role = Role(arguments=arguments, data=folder, environment=named, clock=clock)
        role.start()
        try:
            yield role
        finally:
            role.end()

    @contextmanager
    def stopped(self, pid: int) -> Iterator[None]:
        """Suspend the process until the block ends. It keeps everything that it holds."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    @contextmanager
    def unattended(self) -> Iterator[None]:
        """Suspend the supervisor, so that roles that die are not restarted."""
        assert self.instance.process is not None
        with self.stopped(self.instance.process.pid):
            yield

    def role(self, name: str, within: float = 20.0) -> int:
        """Return the pid of the role, and wait for it if necessary. Raises NotRunning."""
        deadline = time.monotonic() + within
        while (pid := self.instance.pid(name)) is None or not _alive(pid):
            if time.monotonic() > deadline:
                raise NotRunning(f"role {name} is not running")
            time.sleep(POLL_INTERVAL_SECONDS)
        return pid


def _sequenced(ports: Ports, waiting: dict[str, Tweet]) -> bool:
    with suppress(Unavailable):
        for tweet in list(waiting.values()):
            if not [outcome for outcome in ports.bursts.outcomes(SOURCE, tweet.id) if outcome.burst]:
                return False
            del waiting[tweet.id]
        return True
    return False


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


@contextmanager
def stage(folder: Path, tell: Report, seed: int) -> Iterator[Stage]:
    """Yield a running stage. Afterwards all of its processes have ended and its files are deleted."""
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    tell("starting engines and a notifier")
    try:
        with (
            engines(data, "cluster", Sync.BATCH, proxied=["cassandra"]) as fault_engines,
            running_stage(data, fault_engines, tell, seed) as running,
        ):
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_stage(data: Path, fault_engines: Engines | None, tell: Report, seed: int) -> Iterator[Stage]:
    """Yield a stage on running engines, which the folder's settings name."""
    settings = Settings.read(data=data, profile="cluster", threshold=THRESHOLD)
    instance = Instance(data=data, environment=ENVIRONMENT)
    with closing(choose(settings)) as profile:
        migrate_patiently(profile)
        ports = profile.ports()
        write_world_marker(data, WORLD)
        WorldLoader.into(ports)(WORLD)
        with instance:
            yield Stage(
                data=data,
                fault_engines=fault_engines,
                profile=profile,
                ports=ports,
                instance=instance,
                tell=tell,
                settings=settings,
                random=Random(seed),
            )
