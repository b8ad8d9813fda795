"""Browser demo: loads generated users once, runs the service on them, and opens a page."""

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
from notifier.cli.command_groups_and_errors import program_command
from notifier.cli.commands.roles import stop_signal
from notifier.cli.commands.send_events import BATCH_CONTENT_TYPE
from notifier.cli.commands.up import ServiceRunner
from notifier.cli.data_folder_setup import prepare_data_folder, prepare_logs_folder
from notifier.cli.options import command_line_for
from notifier.cli.running_service import Ready, request_json
from notifier.cli.supervisor.forkserver_client import RoleForks, fork_server
from notifier.config import VARIABLE_PREFIX, Settings, has_display
from notifier.domain.errors import NotifierError, OtherWorld, PortTaken

if TYPE_CHECKING:
    from notifier.devkit.fixture.world import World
    from notifier.profiles import Profile

DEFAULT_FOLDER = Path("notifier-demo")
"""Default data folder: in the current folder, where the next start finds it, and easy to delete."""
COLLAPSE_SECONDS = 20
"""Collapse window in seconds: longer than a storm, so that a storm becomes one burst."""
BUDGET_REFILL_SECONDS = 60
"""Seconds after which the fan-out budget of @nova, which begins with six bursts, allows one more.

The usual value is an hour, for which a visitor would not wait.
"""
LOAD_PAUSE_SECONDS_PER_FOLLOWER = 40e-9
"""Pause after the load of the first celebrity, in seconds per follower: 8 s for 200 million.

Otherwise the load of the second celebrity would slow down the first burst.
"""
MAX_SEARCHED_MEMBERS = 1 << 20
"""Members that are searched for the demo users. Any 600,000 successive members include a VIP active within a week."""


@dataclass(slots=True, kw_only=True)
class FixtureLoading:
    """Loads the generated users in the background, while the page already shows the progress."""

    world: "World"
    data: Path
    profile: "Profile"
    stopping: Signal
    has_begun: bool = False
    """Whether this start of the demo loads users."""
    repeats_interrupted_load: bool = False
    """Whether an earlier start was interrupted while it loaded users, so that this one loads them again."""
    cancelled: Signal = field(default_factory=Signal)
    page_ready: Signal = field(default_factory=Signal)
    """Set when the page is served, or when the demo ends."""
    on_first_celebrity: Callable[[], None] = lambda: None
    thread: Thread | None = None
    failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread, unless all users are already loaded."""
        from notifier.devkit.fixture.world_loader_and_markers import (
            DEMO_LOADED_MARKER,
            DEMO_LOADING_MARKER,
            require_no_users,
            write_world_marker,
        )

        if (self.data / DEMO_LOADED_MARKER).exists():
            return
        ports = self.profile.ports()
        require_no_users(self.data, self.world, ports.directory, ports.sets)
        # Write the marker before the first user: after an interruption, the next start knows where the users are from.
        write_world_marker(self.data, self.world, DEMO_LOADING_MARKER)
        self.has_begun, self.thread = True, Thread(target=self._run, name="loading", daemon=True)
        self.thread.start()

    def call_after_first_celebrity(self, action: Callable[[], None]) -> None:
        """Have the loading thread call `action` once the page is served and the first celebrity is loaded.

        If this start loads no users, `action` is never called.
        """
        self.on_first_celebrity = action
        self.page_ready.set()

    def stop(self) -> None:
        """Stop loading and wait for the thread. Raises the error that made the load fail."""
        self.cancelled.set()
        self.page_ready.set()
        if self.thread:
            self.thread.join()
        if self.failure:
            raise self.failure

    def _run(self) -> None:
        from notifier.api.process_status_loading_progress_metrics import loading_file

        try:
            self._load()
        except LoadingCancelled:
            pass
        except BaseException as error:
            self.failure = error
            self.stopping.set()
        finally:
            loading_file(self.data).unlink(missing_ok=True)

    def _load(self) -> None:
        from notifier.api.process_status_loading_progress_metrics import loading_file
        from notifier.devkit.fixture.world_loader_and_markers import (
            DEMO_LOADED_MARKER,
            DEMO_LOADING_MARKER,
            WorldLoader,
            steps,
        )

        ports, file = self.profile.ports(), loading_file(self.data)
        with_one_celebrity = replace(self.world, celebrities=1, second_followers=None)
        total_steps, steps_done, reported_percent = steps(with_one_celebrity), 0, -1

        def advance(count: int) -> None:
            nonlocal steps_done, reported_percent
            if self.cancelled.is_set():
                raise LoadingCancelled
            steps_done += count
            if steps_done <= total_steps and (percent := 100 * steps_done // total_steps) != reported_percent:
                reported_percent = percent
                file.write_text(str(percent))

        def pause_after_first_celebrity() -> None:
            """Let the visitor watch the first celebrity's first burst before the rest of the load slows it down."""
            file.unlink(missing_ok=True)
            self.page_ready.wait()
            advance(0)  # cancels the load if the demo has ended
            self.on_first_celebrity()
            self.cancelled.wait(LOAD_PAUSE_SECONDS_PER_FOLLOWER * self.world.followers)

        advance(0)  # shows 0 %
        WorldLoader.into(ports)(self.world, advance, pause_after_first_celebrity)
        # Rename the marker last: until then, the next start repeats the load, with the same result.
        (self.data / DEMO_LOADING_MARKER).replace(self.data / DEMO_LOADED_MARKER)


class LoadingCancelled(Exception):
    """Raised in the loading thread when the demo ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserDemo:
    """The browser demo with the options of the command line."""

    world: "World"
    data: Path
    port: int | None
    """None: the default port, or any free one if that is taken."""
    profile: str
    opens_browser: bool
    """Open a browser if there is a display."""
    collapse: float
    """Collapse window in seconds, while the fan-out budget isn't empty."""
    fresh: bool = False
    """Remove the data of an earlier demo first."""

    def run(self) -> None:
        """Run the demo until Ctrl-C."""
        from notifier.cli.commands.demo_folder_cleanup import require_own_folder

        started_at = monotonic()
        prepare_data_folder(self.data)
        require_own_folder(self.data)
        # The fork server first: it imports the roles' modules while this process imports its own and loads users.
        logs = prepare_logs_folder(self.data)
        with fork_server(self.profile, logs) as forks:
            from notifier.devkit.check.notifier_and_engine_processes import engines
            from notifier.devkit.engines.cassandra import Sync

            with engines(self.data, self.profile, Sync.PERIODIC, fresh=self.fresh):
                self._run(self._settings(), logs, forks, started_at)

    def _run(self, settings: Settings, logs: Path, forks: RoleForks | None, started_at: float) -> None:
        from notifier.cli.supervisor.heartbeat import HeartbeatLimits
        from notifier.profiles import choose

        profile = choose(settings)
        try:
            with stop_signal() as stopping:
                loading = FixtureLoading(world=self.world, data=settings.data, profile=profile, stopping=stopping)
                with profile.services(lambda: self._prepare_folder(loading)) as environment:
                    profile.migrate()
                    loading.start()
                    try:
                        ServiceRunner(
                            settings,
                            profile,
                            {**environment, **self._environment(settings)},
                            logs,
                            forks,
                            ready_file=None,
                            heartbeat_limits=HeartbeatLimits(),
                            started_at=started_at,
                            on_ready=lambda ready, seconds: self._print_welcome(settings, ready, seconds, loading),
                        ).run(stopping)
                    finally:
                        loading.stop()
        finally:
            profile.close()

    def _settings(self) -> Settings:
        overrides = {"redis_url": ""} if self.profile == "embedded" else {}
        settings = Settings.read(data=self.data.absolute(), profile=self.profile, **overrides)
        # The devices of the generated users don't exist: never contact a real provider about them.
        settings = replace(settings, push=settings.push.with_all_faked)
        if self.port is not None:
            return replace(settings, port=self.port)
        try:
            free_port(settings.host, settings.port)
        except PortTaken:
            return replace(settings, port=0)
        return settings

    def _environment(self, settings: Settings) -> Mapping[str, str]:
        # Lower the threshold, so that the first two celebrities are in the celebrity lane even with few followers.
        threshold = min(
            settings.threshold,
            *(self.world.follower_count(celebrity) for celebrity in range(min(2, self.world.celebrities))),
        )
        variables = {
            "DEMO": ",".join(demo_users(self.world)),
            "COMMAND": program_command(),
            "COLLAPSE": f"{self.collapse:f}",
            "REFILL": str(BUDGET_REFILL_SECONDS),
            "ROLL_UP_EVERY": "0",  # opening the inbox of an idle user must not make that user active
            "THRESHOLD": str(threshold),
        }
        return {VARIABLE_PREFIX + name: value for name, value in variables.items()}

    def _prepare_folder(self, loading: FixtureLoading) -> None:
        """Mark a new data folder as a demo's. Remove old demo data if requested, or if a removal was interrupted."""
        from notifier.api.process_status_loading_progress_metrics import loading_file
        from notifier.cli.commands.demo_folder_cleanup import has_owned_files, is_partly_removed, remove_demo_data
        from notifier.devkit.fixture.world_loader_and_markers import DEMO_LOADING_MARKER, write_world_marker

        if self.fresh or is_partly_removed(self.data):
            remove_demo_data(self.data)
        self._require_same_world()
        loading_file(self.data).unlink(missing_ok=True)  # left by a demo that was killed while it loaded
        loading.repeats_interrupted_load = (self.data / DEMO_LOADING_MARKER).exists()
        # Write the marker before the first store file. After a crash, the next start knows that the folder is a demo's.
        if not has_owned_files(self.data):
            write_world_marker(self.data, self.world, DEMO_LOADING_MARKER)

    def _require_same_world(self) -> None:
        from notifier.devkit.fixture.world_loader_and_markers import (
            DEMO_LOADED_MARKER,
            DEMO_LOADING_MARKER,
            is_world_marker,
            require_same_world,
        )

        try:
            require_same_world(self.data, self.world)
        except OtherWorld as error:
            if not any(is_world_marker(self.data / marker) for marker in (DEMO_LOADED_MARKER, DEMO_LOADING_MARKER)):
                raise
            raise OtherWorld(f"{error.detail} Or start over with --fresh.") from error

    def _print_welcome(self, settings: Settings, ready: Ready, seconds: float, loading: "FixtureLoading") -> None:
        from notifier.api.auth.service_and_installation_keys import demo_token, installation_keys

        load_state = "being loaded" if loading.has_begun else "unchanged since the last run"
        if loading.repeats_interrupted_load:
            load_state = "being loaded again, because the last load was interrupted"
        click.echo(f"The demo is at {ready.url} after {seconds:.1f} s: {self.world.universe:,} users, {load_state}")
        click.echo(f"  Demo token    {demo_token(installation_keys(settings))}")
        click.echo(f"  Persistence   folder {ready.data}; --fresh starts over")
        click.echo(f"  Next          press Start a storm, or: {command_line_for('storm', Path(ready.data))}")
        click.echo(f"  Stop          Ctrl-C; logs are in {ready.data}/logs")
        loading.call_after_first_celebrity(lambda: self._send_first_mentions(ready))
        if self.opens_browser and has_display():
            webbrowser.open(ready.url)

    def _send_first_mentions(self, ready: Ready) -> None:
        """Send a first mention of the celebrity and of each demo user, so that neither map nor inboxes are empty."""
        from notifier.api.demo.traffic import AUTHORS, STORM_CELEBRITIES, mention_batch

        names = [STORM_CELEBRITIES[0], *demo_users(self.world)]
        events = mention_batch(names, now=datetime.now(UTC), new_id=lambda: token_hex(8), author=AUTHORS[0])
        with suppress(NotifierError):
            request_json(f"{ready.url}/v1/events", ready.service_key, json.dumps(events).encode(), BATCH_CONTENT_TYPE)


def demo_users(world: "World") -> list[str]:
    """Return the names of four demo users: a VIP, an active user, an occasional user and an absent one.

    They see the bursts of nova and, if possible, of orion. Users with a device are preferred, first those whose device
    has the language of the page, English.
    """
    import numpy as np

    from notifier.devkit.fixture.sample_users_and_devices import LOCALES
    from notifier.devkit.fixture.world import ACTIVE_7D, ACTIVE_24H, ACTIVE_30D, Flags, Members, user
    from notifier.domain.push.translations import ENGLISH

    searched_members: Members = np.arange(min(world.universe, MAX_SEARCHED_MEMBERS), dtype=np.int64)
    with_devices = world.members_with_device()[:MAX_SEARCHED_MEMBERS]
    candidates = np.concatenate(
        [with_devices[with_devices % len(LOCALES) == LOCALES.index(ENGLISH)], with_devices, searched_members]
    )
    sees_nova: Flags = world.follows(0, candidates) & ~world.mutes(0, candidates)
    sees_both: Flags = (
        sees_nova & world.follows(1, candidates) & ~world.mutes(1, candidates) if world.celebrities > 1 else sees_nova
    )
    idle, vip = world.idleness(candidates), world.vip(candidates)
    kinds: list[Flags] = [
        vip & (idle < ACTIVE_7D),
        ~vip & (idle < ACTIVE_24H),
        ~vip & (idle >= ACTIVE_7D) & (idle < ACTIVE_30D),
        ~vip & (idle >= ACTIVE_30D),
    ]
    by_kind = [
        candidates[sees_both & kind] if (sees_both & kind).any() else candidates[sees_nova & kind] for kind in kinds
    ]
    fallback = [*candidates[sees_nova].tolist(), 0]
    return [user(int(members[0]) if len(members) else fallback[0]) for members in by_kind]
