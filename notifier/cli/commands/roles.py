"""Commands that run one process of the role `api`, `pump` or `worker`."""

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Signal
from threading import Thread

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import data_option, host_option, port_option, settings_for
from notifier.cli.supervisor.heartbeat import HeartbeatSender, heartbeat_file, standalone_heartbeat_file
from notifier.config import Settings
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.ids import Platform

CHATTY_LOGGERS = ("cassandra", "kafka")
"""Client libraries that log every connection. They are silenced below WARNING unless the log level is `debug`."""

parent_option = click.option(
    "--parent", type=int, default=None, hidden=True, help="Id of the parent process; end when it ends."
)
number_option = click.option(
    "--number",
    type=click.IntRange(1),
    default=1,
    hidden=True,
    help="Number of the process among the processes of its role.",
)


@click.command(epilog=example("notifier api --port 8080"))
@host_option
@port_option
@number_option
@parent_option
@data_option
def api(host: str | None, port: int | None, number: int, parent: int | None, data: Path | None) -> None:
    """Run only the HTTP API, in one process.

    Redis must already be running, and in the cluster profile also Kafka and Cassandra.
    """
    from notifier.api.api_process import serve

    process_name = process_name_of("api", number)
    settings = set_up_role(process_name, settings_for(data, host=host, port=port), parent)
    beat = heartbeat_sender(process_name, settings, parent)
    report_ready = readiness_reporter(process_name, settings, beat)

    def ready(port: int) -> None:
        click.echo(f"Listening on {settings.host}:{port}.")
        report_ready()

    serve(settings, ready, beat, port_is_reserved=parent is not None)


@click.command(epilog=example("notifier pump"))
@parent_option
@data_option
def pump(parent: int | None, data: Path | None) -> None:
    """Run only the pump, in one process.

    The pump reads all streams, and runs the periodic work such as that of the dispatcher and the reconciler.
    """
    from notifier.cli.opened_stores import system_of
    from notifier.cli.supervisor.pump_consumers_and_jobs import run
    from notifier.profiles import choose

    settings = set_up_role("pump", settings_for(data), parent)
    profile = choose(settings)
    try:
        with stop_signal() as stopping:
            beat = heartbeat_sender("pump", settings, parent)
            run(system_of(profile, settings, "pump"), stopping, readiness_reporter("pump", settings, beat), beat)
    finally:
        profile.close()


@click.command(epilog=example("notifier worker p2"))
@click.argument("pool", type=click.Choice([str(pool) for pool in Pool]))
@number_option
@parent_option
@data_option
def worker(pool: str, number: int, parent: int | None, data: Path | None) -> None:
    """Run only one worker of a pool, in one process."""
    from notifier.cli.opened_stores import system_of
    from notifier.metrics import Metrics
    from notifier.profiles import choose
    from notifier.profiles.push_providers import require_credentials
    from notifier.wiring.delivery import build_slice_worker
    from workers.celery_worker import run

    process_name = process_name_of(pool, number)
    settings = set_up_role(process_name, settings_for(data), parent)
    # Unusable credentials must stop only the workers that send with them.
    require_credentials(settings.push, [platform for platform in Platform if pool == f"push.{platform}"])
    profile = choose(settings)
    try:
        metrics, beat = Metrics(), heartbeat_sender(process_name, settings, parent)
        run(
            Pool(pool),
            lambda beat_, stopping: build_slice_worker(
                system_of(profile, settings, process_name, metrics), beat_, stopping
            ),
            profile.celery_app(Pool(pool), metrics),
            readiness_reporter(process_name, settings, beat),
            beat,
        )
    finally:
        profile.close()


def process_name_of(role: str, number: int) -> str:
    """Return the name of one of several processes of a role: `api`, then `api-2`."""
    return role if number == 1 else f"{role}-{number}"


def set_up_role(process_name: str, settings: Settings, parent: int | None) -> Settings:
    """Set up the process of a role, and return the settings.

    A role of `up` ends with its parent, and shares its metrics with the other roles of `up`. A role that runs alone
    ensures the schema.
    """
    from notifier.cli.opened_stores import require_folder, require_schema
    from notifier.cli.supervisor.shared_metric_files import share_metrics
    from workers.gc_and_watchdogs import end_with_parent

    if parent is not None:
        end_with_parent(parent)
    require_folder(settings.data)
    if parent is None:
        _remove_old_files(process_name, settings.data)
        require_schema(settings)
    else:  # `up` has migrated the stores
        share_metrics(settings.data / "run" / "metrics", process_name)
    log_format = f"%(asctime)s {process_name} %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=settings.log_level.upper(), format=log_format)
    if settings.log_level.lower() != "debug":
        for name in CHATTY_LOGGERS:
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    return settings


def _remove_old_files(process_name: str, data: Path) -> None:
    """Remove what would show this process as ready too early.

    That is the heartbeat of an earlier process, and its pid file if that process had the same pid, as in a container.
    """
    from notifier.cli.supervisor.pid_files import pid_files_of

    standalone_heartbeat_file(data, process_name).unlink(missing_ok=True)
    if pid_files_of(data).is_written(process_name, os.getpid()):
        (pid_files_of(data).folder / process_name).unlink()


def readiness_reporter(process_name: str, settings: Settings, beat: Callable[[], None]) -> Callable[[], None]:
    """Return a function that reports that the role can work."""
    from notifier.cli.supervisor.pid_files import pid_files_of

    def report_ready() -> None:
        beat()  # first: once the pid file exists, Kubernetes restarts a role without a heartbeat
        pid_files_of(settings.data).write(process_name, os.getpid())

    return report_ready


def heartbeat_sender(process_name: str, settings: Settings, parent: int | None) -> Callable[[], None]:
    file = (
        standalone_heartbeat_file(settings.data, process_name)
        if parent is None
        else heartbeat_file(settings.data, process_name)
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    return HeartbeatSender(file=file)


@contextmanager
def stop_signal() -> Iterator[Signal]:
    """Yield an event that SIGTERM and Ctrl-C set while the block lasts."""
    stopping = Signal()
    numbers = (signal.SIGTERM, signal.SIGINT)
    # Set the event in a thread: the handler interrupts the main thread, which may hold the event's lock.
    previous_handlers = [signal.signal(number, lambda *_: Thread(target=stopping.set).start()) for number in numbers]
    try:
        yield stopping
    finally:
        for number, handler in zip(numbers, previous_handlers, strict=True):
            signal.signal(number, handler)
