"""Command `notifier up`: runs the whole service on this machine."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from os import getpid
from pathlib import Path
from threading import Event as Signal
from time import monotonic
from typing import TYPE_CHECKING

import click

from notifier.api.port import reserve_port
from notifier.cli.command_groups_and_errors import example
from notifier.cli.commands.fake import FAKES_ROLE
from notifier.cli.commands.roles import stop_signal
from notifier.cli.options import FiniteRange, command_line_for, data_option, host_option, port_option, settings_for
from notifier.cli.output import iso_time
from notifier.cli.running_service import Ready, ready_path, write_ready
from notifier.cli.supervisor.child import Child, last_line, make_start
from notifier.cli.supervisor.fake_providers import FakeProviders, parse_behavior, remove_stale_settings, require_script
from notifier.cli.supervisor.forkserver_client import IMPORT_ENVIRONMENT, OpenForks, RoleForks, fork_server
from notifier.cli.supervisor.heartbeat import MAX_SILENCE_SECONDS, HeartbeatLimits, HeartbeatWatch, heartbeat_file
from notifier.cli.supervisor.pid_files import pid_files_of
from notifier.cli.supervisor.role_processes import api_processes, is_awaited, process_arguments
from notifier.cli.supervisor.shared_metric_files import share_metrics
from notifier.cli.supervisor.supervisor import Supervisor
from notifier.config import MAX_API_WORKERS, PROFILE_FILE, VARIABLE_PREFIX, PushSettings, Settings, format_value
from notifier.config.settings_and_environment import installed_version
from notifier.domain.ids import Platform

if TYPE_CHECKING:
    from prometheus_client import Counter

    from notifier.profiles import Profile


@click.command(epilog=example("notifier up", "notifier up --data ./try --port 0 --ready-file ready.json"))
@host_option
@port_option
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_API_WORKERS),
    default=None,
    help="Number of API processes that share the port.  [default: NOTIFIER_API_WORKERS, or by the number of cores]",
)
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE",
    help="Write the content of DIR/run/ready.json also to this file.",
)
@click.option(
    "--insecure-dev",
    is_flag=True,
    help="Accept requests from this machine without a key, as any service and any user; for development only.",
)
@click.option(
    "--fake-script",
    metavar="SCRIPT",
    help="Misbehavior of the fake providers, as in `notifier fake apns --help`. The prefix apns., fcm. or web. limits "
    "an option to one fake.  [default: NOTIFIER_PUSH_FAKE_SCRIPT]",
)
@click.option(
    "--hung-after",
    type=FiniteRange(min=1.0),
    default=MAX_SILENCE_SECONDS,
    hidden=True,
    help="Seconds without a heartbeat after which a process is restarted.",
)
@data_option
def up(
    *,
    host: str | None,
    port: int | None,
    workers: int | None,
    ready_file: Path | None,
    insecure_dev: bool,
    fake_script: str | None,
    hung_after: float,
    data: Path | None,
) -> None:
    """Run the whole service on this machine until Ctrl-C.

    Once the service is up, the ready file DIR/run/ready.json has its url, service_key, pids by process name, data,
    version, since and insecure_dev. The file is written again whenever a process is replaced. Logs are in DIR/logs.
    """
    started_at = monotonic()
    options = {"host": host, "port": port, "api_workers": workers, "insecure_dev": insecure_dev or None}
    settings = settings_for(data, **options)
    if remove_stale_settings(settings.data):
        settings = settings_for(data, **options)
    settings = replace(settings, data=settings.data.absolute(), push=_with_fake_script(settings.push, fake_script))
    run_service(
        settings, ready_file=ready_file, heartbeat_limits=HeartbeatLimits(max_silence=hung_after), started_at=started_at
    )


def run_service(
    settings: Settings,
    *,
    ready_file: Path | None,
    heartbeat_limits: HeartbeatLimits,
    started_at: float,
    open_forks: OpenForks = fork_server,
) -> None:
    """Run all roles until SIGINT or SIGTERM."""
    from notifier.cli.data_folder_setup import prepare_data_folder, prepare_logs_folder
    from notifier.flow.indexing.custom_tier_rule import load_tier_rule

    require_script(settings.push)
    load_tier_rule(settings.tier_rule)  # fail here, instead of in each role
    if any(map(settings.push.uses_real_provider, Platform)) or settings.push.fcm.uses_google_library:
        # Imports all adapters. The usual start does so beside the fork server.
        from notifier.profiles.push_providers import require_credentials

        require_credentials(settings.push)
    prepare_data_folder(settings.data)
    # The fork server first: it imports the roles' modules while this process imports its own and opens the stores.
    logs = prepare_logs_folder(settings.data)
    with open_forks(settings.profile, logs) as forks:
        from notifier.api.process_status_loading_progress_metrics import loading_file
        from notifier.profiles import choose

        profile = choose(settings)
        try:
            with stop_signal() as stopping, profile.services() as environment:
                profile.migrate()
                loading_file(settings.data).unlink(missing_ok=True)  # left by a demo that was killed while it loaded
                runner = ServiceRunner(
                    settings,
                    profile,
                    environment,
                    logs,
                    forks,
                    ready_file=ready_file,
                    heartbeat_limits=heartbeat_limits,
                    started_at=started_at,
                )
                runner.run(stopping)
        finally:
            profile.close()


def _with_fake_script(push: PushSettings, script: str | None) -> PushSettings:
    """Return the settings with the script of the command line. Raises UsageError if that script is invalid."""
    if script is None:
        return push
    parse_behavior(script, Platform.APNS)
    return replace(push, fake_script=script)


class ServiceRunner:
    """Runs the roles of one data folder, from start to stop."""

    def __init__(
        self,
        settings: Settings,
        profile: "Profile",
        service_environment: Mapping[str, str],
        logs: Path,
        forks: RoleForks | None,
        *,
        ready_file: Path | None,
        heartbeat_limits: HeartbeatLimits,
        started_at: float,
        on_ready: Callable[[Ready, float], None] | None = None,
    ) -> None:
        self.settings = settings
        self.profile = profile
        self.service_environment = service_environment
        """Environment variables of `Profile.services`, such as the URL of Redis."""
        self.logs = logs
        """Folder of the roles' logs."""
        self.forks = forks
        """None: each role starts in an interpreter of its own."""
        self.port = settings.port
        """Port from the settings; while the roles run, the reserved port."""
        self.process_arguments = process_arguments(api=api_processes(settings), pools=profile.worker_counts())
        self.ready_files = [ready_path(settings.data), *([ready_file] if ready_file else [])]
        self.started_at = started_at
        self.since = iso_time(datetime.now(UTC))
        self.heartbeat_limits = heartbeat_limits
        self.on_ready = on_ready or print_banner
        """Called once the service is up, with the content of the ready file and the seconds that the start took."""
        self.is_announced = False
        self.fakes = FakeProviders(ports={}, data=settings.data, push=settings.push)
        """Fakes that `up` runs; before `run`, there are none."""

    def run(self, stopping: Signal) -> None:
        """Run the roles until `stopping` is set."""
        with ExitStack() as reservations:

            def reserve(host: str, port: int) -> int:
                return reservations.enter_context(reserve_port(host, port)).port

            self.port = reserve(self.settings.host, self.settings.port)
            self.fakes = FakeProviders.of(self.settings, reserve)
            self._run(stopping)

    def _run(self, stopping: Signal) -> None:
        run_folder = self.settings.data / "run"
        from notifier.metrics import Metrics

        self._remove_old_files(run_folder)
        (self.settings.data / PROFILE_FILE).write_text(self.settings.profile)
        share_metrics(run_folder / "metrics", "up")
        replacements = Metrics().roles_replaced
        arguments = {**self.process_arguments, **({FAKES_ROLE: self.fakes.arguments} if self.fakes.ports else {})}
        self.fakes.write_settings()
        supervisor = Supervisor(
            children=[self._child(name, command, replacements) for name, command in arguments.items()],
            pid_files=pid_files_of(self.settings.data),
            is_answering=self._is_answering,
            announce=self._announce,
            other_pids=lambda: {"up": getpid(), **self.profile.service_pids()},
            last_log_line=lambda name: last_line(self.logs / f"{name}.log"),
            stopping=stopping,
        )
        try:
            supervisor.run()
        finally:
            self.fakes.remove_settings()
            for path in self.ready_files:
                path.unlink(missing_ok=True)

    def _child(self, name: str, arguments: Sequence[str], replacements: "Counter") -> Child:
        return Child(
            name=name,
            start=make_start(arguments, self._environment(), self.logs / f"{name}.log", self.forks),
            on_end=lambda cause: replacements.labels(name, cause).inc(),
            heartbeat=HeartbeatWatch(file=heartbeat_file(self.settings.data, name), limits=self.heartbeat_limits),
            is_awaited=is_awaited(name),
        )

    def _remove_old_files(self, run_folder: Path) -> None:
        for path in self.ready_files:
            path.unlink(missing_ok=True)
        for folder in ("metrics", "up", "heartbeats"):
            shutil.rmtree(run_folder / folder, ignore_errors=True)
            # The folder may exist again: a role of an earlier run that is still stopping may have written to it.
            (run_folder / folder).mkdir(parents=True, exist_ok=True)

    def _environment(self) -> Mapping[str, str]:
        from notifier.profiles.data_folder_and_instance_name import instance_name

        settings = self.settings
        variables = {
            "DATA": str(settings.data),
            "PROFILE": settings.profile,
            "HOST": settings.host,
            "PORT": str(self.port),
        }
        variables["INSECURE_DEV"] = format_value(settings.insecure_dev)
        # A pump that is started separately has another name: two consumers with the same name would evict each other.
        variables["INSTANCE"] = f"{instance_name(settings)}-up"
        return {
            **{VARIABLE_PREFIX + name: value for name, value in variables.items()},
            **self.fakes.environment,
            **IMPORT_ENVIRONMENT,
            **self.service_environment,
        }

    def _is_answering(self) -> bool:
        connection = HTTPConnection(reachable_host(self.settings.host), self.port, timeout=1.0)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def _announce(self, pids: Mapping[str, int]) -> None:
        from notifier.api.auth.service_and_installation_keys import installation_keys

        ready = Ready(
            url=f"http://{reachable_host(self.settings.host)}:{self.port}",
            service_key=installation_keys(self.settings).service_key,
            pids=pids,
            data=str(self.settings.data),
            version=installed_version(),
            since=self.since,
            insecure_dev=self.settings.insecure_dev,
        )
        for path in self.ready_files:
            write_ready(path, ready)
        if not self.is_announced:
            self.is_announced = True
            self.on_ready(ready, monotonic() - self.started_at)
            for sentence in self.fakes.sentences:
                click.echo(f"  alerts {sentence}")


def print_banner(ready: Ready, seconds: float) -> None:
    """Print the address, folders and next commands. The commands name the data folder unless it is the default."""
    from notifier.api.auth.authenticators import INSECURE_WARNING

    folder = None if Path(ready.data) == Settings().data.absolute() else Path(ready.data)
    click.echo(f"notifier {ready.version} is up at {ready.url} after {seconds:.1f} s; Ctrl-C stops it")
    if ready.insecure_dev:
        click.echo(INSECURE_WARNING)
    click.echo(f"  data   {ready.data}")
    click.echo(f"  logs   {ready.data}/logs")
    click.echo(f"  try    {command_line_for('mention --author u7 --of nova', folder)}")
    click.echo(f"  watch  {command_line_for('top', folder)}")


def reachable_host(host: str) -> str:
    """Return an address that reaches a server listening on this host."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
