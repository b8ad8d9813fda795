"""The demo in a browser: a world that is loaded once and kept, the service on it, and a page that shows both."""

import json
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from threading import Event as Signal
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

import click

from notifier.api.port import free_port
from notifier.cli.commands.events import BATCH
from notifier.cli.commands.roles import told_to_stop
from notifier.cli.commands.up import Upkeep
from notifier.cli.data_folder import prepare
from notifier.cli.group import command
from notifier.cli.http import Ready, ask
from notifier.cli.options import words_for
from notifier.config import PREFIX, Settings, has_display
from notifier.domain.errors import NotifierError, OtherWorld, PortTaken

if TYPE_CHECKING:
    from notifier.devkit.fixture.world import World
    from notifier.profiles import Profile

FOLDER = Path("notifier-demo")
"""Where the next start finds it again: beside what one has just cloned, and easy to throw away."""
COLLAPSE = 20
"""Seconds: longer than a storm, so that it is one burst, and short enough that somebody who waits sees the next."""
REFILL = 60
"""Seconds until @nova may be fanned out once more, after six that may follow one another: elsewhere an hour. Whoever
watches for ten minutes sees the budget at work, and never long a storm that only makes a count grow."""
UNDISTURBED = 40e-9
"""Seconds for each follower of the first celebrity, in which her first burst has the machine for itself before the
second celebrity is loaded: 8 s for 200 million."""
LOOKED_AMONG = 1 << 20
"""Members, for the four people: there is a VIP who was here within a week among each 100,000."""


@dataclass(slots=True, kw_only=True)
class FixtureLoading:
    """The world, loaded in front of the visitor: the page is there meanwhile, and shows how far it is."""

    world: "World"
    data: Path
    profile: "Profile"
    stopping: Signal
    begun: bool = False
    again: bool = False
    """An earlier load was cut off."""
    ending: Signal = field(default_factory=Signal)
    served: Signal = field(default_factory=Signal)
    afterwards: Callable[[], None] = lambda: None
    thread: Thread | None = None
    failed: BaseException | None = None

    def start(self) -> None:
        """Nothing where the world is whole. Raises OtherWorld or Unwritable."""
        from notifier.devkit.fixture.load import DEMO, DEMO_BEGUN, claim, require_nobody

        if (self.data / DEMO).exists():
            return
        ports = self.profile.ports()
        require_nobody(self.data, self.world, ports.directory, ports.sets)
        # Before the first of its people: whatever cuts the load off, the next start knows whose they are.
        claim(self.data, self.world, DEMO_BEGUN)
        self.begun, self.thread = True, Thread(target=self._run, name="loading", daemon=True)
        self.thread.start()

    def then(self, act: Callable[[], None]) -> None:
        """Done by the loading thread once the world is whole; never where nothing was loaded."""
        self.afterwards = act
        self.served.set()

    def end(self) -> None:
        """Raises what made the load fail."""
        self.ending.set()
        self.served.set()
        if self.thread:
            self.thread.join()
        if self.failed:
            raise self.failed

    def _run(self) -> None:
        from notifier.api.processes import loading_file

        try:
            self._load()
        except Cut:
            pass
        except BaseException as error:
            self.failed = error
            self.stopping.set()
        finally:
            loading_file(self.data).unlink(missing_ok=True)

    def _load(self) -> None:
        from notifier.api.processes import loading_file
        from notifier.devkit.fixture.load import DEMO, DEMO_BEGUN, Load, steps

        ports, file = self.profile.ports(), loading_file(self.data)
        first = replace(self.world, celebrities=1, second_followers=None)
        whole, done, told = steps(first), 0, -1

        def advance(by: int) -> None:
            nonlocal done, told
            if self.ending.is_set():
                raise Cut
            done += by
            if done <= whole and (percent := 100 * done // whole) != told:
                told = percent
                file.write_text(str(percent))

        def first_stands() -> None:
            """The visitor watches the first celebrity's first burst meanwhile, and isn't to wait for it."""
            file.unlink(missing_ok=True)
            self.served.wait()
            advance(0)
            self.afterwards()
            self.ending.wait(UNDISTURBED * self.world.followers)

        advance(0)
        Load.into(ports)(self.world, advance, first_stands)
        # Last: a load that was cut off is done again, to the same effect.
        (self.data / DEMO_BEGUN).replace(self.data / DEMO)


class Cut(Exception):
    """The demo ends while it loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    world: "World"
    data: Path
    port: int | None
    """None: the usual one, or any other where that is taken."""
    profile: str
    opens: bool
    """A browser, where there is a display."""
    collapse: float
    """Seconds of the least collapse window."""
    fresh: bool = False
    """What an earlier demo kept is thrown away first."""

    def run(self) -> None:
        """Until Ctrl-C."""
        from notifier.cli.data_folder import require_ours
        from notifier.devkit.check.instance import engines
        from notifier.devkit.engines.cassandra import Sync

        began = monotonic()
        prepare(self.data)
        require_ours(self.data)
        with engines(self.data, self.profile, Sync.PERIODIC, fresh=self.fresh):
            self._run(self._settings(), began)

    def _run(self, settings: Settings, began: float) -> None:
        from notifier.cli.supervisor.heartbeat import HeartbeatLimits
        from notifier.profiles import choose

        profile = choose(settings)
        try:
            with told_to_stop() as stopping:
                loading = FixtureLoading(world=self.world, data=settings.data, profile=profile, stopping=stopping)
                with profile.services(lambda: self._settle(loading)) as environment:
                    profile.migrate()
                    loading.start()
                    try:
                        Upkeep(
                            settings,
                            profile,
                            {**environment, **self._environment(settings)},
                            ready_file=None,
                            patience=HeartbeatLimits(),
                            began=began,
                            says=lambda ready, seconds: self._greet(settings, ready, seconds, loading),
                        ).run(stopping)
                    finally:
                        loading.end()
        finally:
            profile.close()

    def _settings(self) -> Settings:
        own = {"redis_url": ""} if self.profile == "embedded" else {}
        settings = Settings.read(data=self.data.absolute(), profile=self.profile, **own)
        # Its people's devices are made up: no provider is asked about them.
        settings = replace(settings, push=settings.push.alone)
        if self.port is not None:
            return replace(settings, port=self.port)
        try:
            free_port(settings.host, settings.port)
        except PortTaken:
            return replace(settings, port=0)
        return settings

    def _environment(self, settings: Settings) -> Mapping[str, str]:
        # The page shows bursts of celebrities, which both are in a small world, too.
        threshold = min(settings.threshold, *(self.world.size(star) for star in range(min(2, self.world.celebrities))))
        own = {
            "DEMO": ",".join(people(self.world)),
            "COMMAND": command(),
            "COLLAPSE": f"{self.collapse:f}",
            "REFILL": str(REFILL),
            "ROLL_UP_EVERY": "0",  # whoever shows an idle person's tab shows an idle person
            "THRESHOLD": str(threshold),
        }
        return {PREFIX + name: value for name, value in own.items()}

    def _settle(self, loading: FixtureLoading) -> None:
        """What an earlier process left, before anything runs on it. Raises NotOurs, OtherWorld or Unwritable."""
        from notifier.api.processes import loading_file
        from notifier.cli.data_folder import forget, half_forgotten, untouched
        from notifier.devkit.fixture.load import DEMO_BEGUN, claim

        if self.fresh or half_forgotten(self.data):
            forget(self.data)
        self._require_same()
        loading_file(self.data).unlink(missing_ok=True)  # of one who was killed as it loaded: nobody does now
        loading.again = (self.data / DEMO_BEGUN).exists()
        # Before the first store: whatever ends this, what it leaves is known as a demo's.
        if untouched(self.data):
            claim(self.data, self.world, DEMO_BEGUN)

    def _require_same(self) -> None:
        """Raises OtherWorld."""
        from notifier.devkit.fixture.load import DEMO, DEMO_BEGUN, notes_a_world, require_same

        try:
            require_same(self.data, self.world)
        except OtherWorld as error:
            if not any(notes_a_world(self.data / note) for note in (DEMO, DEMO_BEGUN)):
                raise
            raise OtherWorld(f"{error.detail} Or begin anew with --fresh.") from error

    def _greet(self, settings: Settings, ready: Ready, seconds: float, loading: "FixtureLoading") -> None:
        from notifier.api.auth.guards import demo_token
        from notifier.api.auth.service_keys import keys_of

        kept = "being loaded" if loading.begun else "as you left them"
        if loading.again:
            kept = "being loaded anew, because the last time it was cut off"
        click.echo(f"The demo is at {ready.url} after {seconds:.1f} s: {self.world.universe:,} people, {kept}")
        click.echo(f"  Demo token    {demo_token(keys_of(settings))}")
        click.echo(f"  Persistence   file {ready.data}; --fresh begins anew")
        click.echo(f"  Next          press Start a storm, or: {words_for('storm', Path(ready.data))}")
        click.echo(f"  Stop          Ctrl-C; logs are in {ready.data}/logs")
        loading.then(lambda: self._begin(ready))
        if self.opens and has_display():
            webbrowser.open(ready.url)

    def _begin(self, ready: Ready) -> None:
        """A first mention of the star, and one of each of the people: neither the map nor an inbox is empty."""
        from notifier.api.demo.traffic import AUTHORS, STARS, letter

        names = [STARS[0], *people(self.world)]
        events = letter(names, now=datetime.now(UTC), fresh=lambda: token_hex(8), author=AUTHORS[0])
        with suppress(NotifierError):
            ask(f"{ready.url}/v1/events", ready.service_key, json.dumps(events).encode(), BATCH)


def people(world: "World") -> list[str]:
    """A VIP, one who is active, one who comes now and then and one who is away: the first who follow and see nova, and
    orion if there are any, of those whose phones can ring, and in English, as the page is, before other languages.

    In a small world, where there is no such person, the first follower.
    """
    import numpy as np

    from notifier.devkit.fixture.users import LOCALES
    from notifier.devkit.fixture.world import ACTIVE_7D, ACTIVE_24H, ACTIVE_30D, Flags, Members, user
    from notifier.domain.push.translations import ENGLISH

    everybody: Members = np.arange(min(world.universe, LOOKED_AMONG), dtype=np.int64)
    ringing = world.reachable()[:LOOKED_AMONG]
    m = np.concatenate([ringing[ringing % len(LOCALES) == LOCALES.index(ENGLISH)], ringing, everybody])
    seeing: Flags = world.follows(0, m) & ~world.mutes(0, m)
    both: Flags = seeing & world.follows(1, m) & ~world.mutes(1, m) if world.celebrities > 1 else seeing
    idle, vip = world.idleness(m), world.vip(m)
    wanted: list[Flags] = [
        vip & (idle < ACTIVE_7D),
        ~vip & (idle < ACTIVE_24H),
        ~vip & (idle >= ACTIVE_7D) & (idle < ACTIVE_30D),
        ~vip & (idle >= ACTIVE_30D),
    ]
    found = [m[both & kind] if (both & kind).any() else m[seeing & kind] for kind in wanted]
    fallback = [*m[seeing].tolist(), 0]
    return [user(int(each[0]) if len(each) else fallback[0]) for each in found]
