"""A running notifier for measurements: loads a world, sends single mentions, and reads the ledger."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from benchmarks.process_stats import peak_mb
from notifier import topics
from notifier.api.auth.authenticators import installation_keys, issue_token
from notifier.config import Settings
from notifier.devkit.check.http_client import HttpClient
from notifier.devkit.check.mention_storm import EVENT_CONTENT_TYPE, SOURCE, Tweet
from notifier.devkit.check.notifier_and_engine_processes import Instance, engines
from notifier.devkit.engines.cassandra import Sync
from notifier.devkit.fixture.world import World, user
from notifier.devkit.fixture.world_loader_and_markers import NO_ROLL_UP, ONE_API_PROCESS, WorldLoader
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.delivery.ledger import BurstProgress, SliceState
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.errors import Unavailable
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.ports.all_ports import Ports
from notifier.ports.viewers_preferences_user_blocks import People
from notifier.profiles import Profile, choose

MENTIONS = (topics.MENTIONS, topics.MENTIONS_CELEBRITY, topics.MENTIONS_STANDARD)
POLL_INTERVAL_SECONDS, SLOW_POLL_INTERVAL_SECONDS = 0.05, 0.5
"""Seconds between polls: for what is visible at once, and for the end of a large burst, whose time is in the ledger.
Polling costs the store and the machine that are measured."""


@dataclass(slots=True, kw_only=True)
class FanoutStage:
    world: World
    profile: Profile
    ports: Ports
    instance: Instance
    wire: HttpClient
    loaded_s: float
    """Seconds that loading the world took."""
    _numbers: Iterator[int] = field(default_factory=count)

    def mention(self, name: UserId) -> tuple[str, datetime]:
        """Send one mention of the account. Return its event's id, and the time of the 202."""
        number = next(self._numbers)
        tweet = Tweet(id=f"bench-{number}", author=user(number), mentioned=(name,), protected=False)
        body = json.dumps(tweet.event()).encode()
        answer = self.wire.post("/v1/events", body, EVENT_CONTENT_TYPE)
        if not answer.status:  # the connection was idle for longer than the server keeps one
            answer = self.wire.post("/v1/events", body, EVENT_CONTENT_TYPE)
        assert answer.status == 202, answer
        return tweet.id, self.ports.clock.now()

    def token(self, user_id: UserId) -> str:
        """Issue a token for the user's inbox that is valid for longer than any benchmark takes."""
        return issue_token(
            installation_keys(Settings(data=self.instance.data)), user_id, self.ports.clock.now(), timedelta(hours=1)
        )

    async def followers(self, people: People, subject: Subject, most: int) -> list[UserId]:
        """Return users who follow the subject and have not muted it. Muted ones would never get its bursts."""
        users: list[UserId] = []
        for number in range(self.world.universe):
            viewer = await people.viewer(user(number), Member(number))
            users += [viewer.user] if subject in viewer.listed_subjects else []
            if len(users) == most:
                return users
        raise LookupError(f"the world has only {len(users)} followers who can listen; needed: {most}")

    def burst_of(self, event: str, within: float = 20.0) -> BurstKey:
        """Return the mention's burst for the account's followers."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            with suppress(Unavailable):
                for outcome in self.ports.bursts.outcomes(SOURCE, event):
                    if outcome.burst and outcome.burst.subject.kind is Kind.MENTION:
                        return outcome.burst
            time.sleep(POLL_INTERVAL_SECONDS)
        raise TimeoutError(f"event {event} has no burst after {within:g} s")

    def progress(self, burst: BurstKey) -> BurstProgress | None:
        """Return None while the burst has no plan, or the store is busy."""
        with suppress(Unavailable):
            return self.ports.ledger.read([burst]).get(burst)
        return None

    def wait(self, burst: BurstKey, tiers: Sequence[Tier], within: float) -> BurstProgress:
        """Return the burst's progress once all rows of the tiers are written."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            progress = self.progress(burst)
            if progress and all(slice_state.final_entry for slice_state in rows_of(progress, tiers)):
                return progress
            time.sleep(SLOW_POLL_INTERVAL_SECONDS)
        raise TimeoutError(f"burst {burst} has unfinished slices after {within:g} s")

    def await_idle(self, within: float) -> None:
        """Return once no mention waits for its burst and no burst has work left, alerts included.

        Raises TimeoutError.
        """
        deadline = time.monotonic() + within
        while not is_at_rest(self.ports):
            if time.monotonic() >= deadline:
                raise TimeoutError(f"work is left after {within:g} s")
            time.sleep(SLOW_POLL_INTERVAL_SECONDS)

    def peaks(self) -> Mapping[str, float]:
        """Return the peak memory in MB of each role's process, without processes that can't be inspected."""
        peak_by_role = {role: peak_mb(pid) for role, pid in self.instance.pids().items()}
        return {role: peak for role, peak in peak_by_role.items() if peak}


def is_at_rest(ports: Ports) -> bool:
    """Return whether no mention or burst has work left. False while a store or the log is unavailable.

    Stores are read in the order of the data: work is written to the next one before it leaves the previous one.

    The ledger alone proves nothing: a burst is readable before its plan is written, and isn't open until then.
    """
    with suppress(Unavailable):
        waiting = any(True for stream in MENTIONS for _ in ports.log.read_uncommitted(stream, topics.GROUPS[stream], 1))
        return not (
            waiting or ports.heads.unpublished(1) or ports.ledger.unfinished_bursts() or ports.deferred_bursts.count()
        )
    return False


def rows_of(progress: BurstProgress, tiers: Sequence[Tier]) -> list[SliceState]:
    return [s for slice_, s in progress.slice_states.items() if slice_.step is Step.ROWS and slice_.tier in tiers]


@contextmanager
def staged(
    folder: Path,
    world: World,
    *,
    tell: Callable[[str], None],
    profile: str = "embedded",
    sync: Sync = Sync.PERIODIC,
    **settings: object,
) -> Iterator[FanoutStage]:
    """Yield a running notifier with a loaded world, on its own engines in the cluster profile. Stop it afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    with engines(folder, profile, sync), closing(choose(Settings.read(data=folder, profile=profile))) as chosen:
        chosen.migrate()
        ports = chosen.ports()
        tell(f"loading {world.universe:,} users, {world.celebrities:,} celebrities")
        began = time.monotonic()
        WorldLoader.into(ports)(world)
        loaded_s = time.monotonic() - began
        environment = {**NO_ROLL_UP, **ONE_API_PROCESS, "NOTIFIER_PROFILE": profile} | {
            f"NOTIFIER_{n.upper()}": str(value) for n, value in settings.items()
        }
        with Instance(data=folder, environment=environment) as instance:
            wire = HttpClient(url=instance.url, bearer=instance.service_key)
            yield FanoutStage(world=world, profile=chosen, ports=ports, instance=instance, wire=wire, loaded_s=loaded_s)
            wire.close()
