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

from notifier.cli.group import example
from notifier.cli.options import data_option, host_option, port_option, settings_for
from notifier.cli.supervisor.heartbeat import Beat, alone, beat_file
from notifier.config import Settings
from notifier.domain.delivery.slice import Pool
from notifier.domain.ids import Platform

CHATTY = ("cassandra", "kafka")
"""Client libraries that log every connection. They are silenced below WARNING unless the log level is `debug`."""

parent_option = click.option("--parent", type=int, default=None, hidden=True, help="End when this process ends.")
number_option = click.option(
    "--number", type=click.IntRange(1), default=1, hidden=True, help="Which of the role's processes in one folder."
)


@click.command(epilog=example("notifier api --port 8080"))
@host_option
@port_option
@number_option
@parent_option
@data_option
def api(host: str | None, port: int | None, number: int, parent: int | None, data: Path | None) -> None:
    """Run only the HTTP API, in one process. Its services must already be running."""
    from notifier.api.server import serve

    role = numbered("api", number)
    settings = begin(role, settings_for(data, host=host, port=port), parent)
    beat = beating(role, settings, parent)
    signed = sign(role, settings, beat)

    def ready(port: int) -> None:
        click.echo(f"Listening on {settings.host}:{port}.")
        signed()

    serve(settings, ready, beat, port_is_reserved=parent is not None)


@click.command(epilog=example("notifier pump"))
@parent_option
@data_option
def pump(parent: int | None, data: Path | None) -> None:
    """Run only the pump, in one process.

    Its loops are router, coordinators, indexers, dispatcher, reconciler and monitor.
    """
    from notifier.cli.context import system_of
    from notifier.cli.supervisor.pump_process import run
    from notifier.profiles import choose

    settings = begin("pump", settings_for(data), parent)
    profile = choose(settings)
    try:
        with told_to_stop() as stopping:
            beat = beating("pump", settings, parent)
            run(system_of(profile, settings, "pump"), stopping, sign("pump", settings, beat), beat)
    finally:
        profile.close()


@click.command(epilog=example("notifier worker p2"))
@click.argument("pool", type=click.Choice([str(pool) for pool in Pool]))
@number_option
@parent_option
@data_option
def worker(pool: str, number: int, parent: int | None, data: Path | None) -> None:
    """Run only one worker of a pool, in one process."""
    from notifier.cli.context import system_of
    from notifier.metrics import Metrics
    from notifier.profiles import choose
    from notifier.profiles.push_providers import require_credentials
    from notifier.wiring.delivery import build_slice_worker
    from workers.host import run

    role = numbered(pool, number)
    settings = begin(role, settings_for(data), parent)
    # An unusable key must stop only the workers that send with it.
    require_credentials(settings.push, [platform for platform in Platform if pool in ("push", f"push.{platform}")])
    profile = choose(settings)
    try:
        metrics, beat = Metrics(), beating(role, settings, parent)
        run(
            Pool(pool),
            lambda beat, stopping: build_slice_worker(system_of(profile, settings, role, metrics), beat, stopping),
            profile.application(Pool(pool), metrics),
            sign(role, settings, beat),
            beat,
        )
    finally:
        profile.close()


def numbered(role: str, number: int) -> str:
    """Return the name of one of several processes of a role: `api`, then `api-2`."""
    return role if number == 1 else f"{role}-{number}"


def begin(role: str, settings: Settings, parent: int | None) -> Settings:
    """Set up the process of a role: parent watch, schema check or shared metrics, and logging.

    Returns the settings. Raises NoData, Full, and the errors of `require_schema` if the role runs alone.
    """
    from notifier.cli.context import require_folder, require_schema
    from notifier.cli.supervisor.pid_files import share
    from workers.watchdog import end_with

    if parent is not None:
        end_with(parent)
    require_folder(settings.data)
    if parent is None:
        _forget(role, settings.data)
        require_schema(settings)
    else:  # `up` has checked the schema, and its roles share their metrics
        share(settings.data / "run" / "metrics", role)
    layout = f"%(asctime)s {role} %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=settings.log_level.upper(), format=layout)
    if settings.log_level.lower() != "debug":
        for name in CHATTY:
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    return settings


def _forget(role: str, data: Path) -> None:
    """Remove heartbeat and pid file of an earlier process of a role that runs alone: this one is not ready yet."""
    from notifier.cli.supervisor.pid_files import roster

    alone(data, role).unlink(missing_ok=True)
    if roster(data).signed(role, os.getpid()):  # in a container every process of the role has the same pid
        (roster(data).folder / role).unlink()


def sign(role: str, settings: Settings, beat: Callable[[], None]) -> Callable[[], None]:
    """Return a function that reports the role as ready. Call it once the role can work."""
    from notifier.cli.supervisor.pid_files import roster

    def signed() -> None:
        beat()  # first: a role with a pid file no longer gets the longer time limit of a start
        roster(settings.data).sign(role, os.getpid())

    return signed


def beating(role: str, settings: Settings, parent: int | None) -> Callable[[], None]:
    """Return the function that sends the heartbeats of the role."""
    file = alone(settings.data, role) if parent is None else beat_file(settings.data, role)
    file.parent.mkdir(parents=True, exist_ok=True)
    return Beat(file=file)


@contextmanager
def told_to_stop() -> Iterator[Signal]:
    """Yield a signal that SIGTERM and Ctrl-C set while the block lasts."""
    stopping = Signal()
    numbers = (signal.SIGTERM, signal.SIGINT)
    # In a thread: the handler interrupts the main thread, which may hold the lock of the signal to wait for it.
    before = [signal.signal(number, lambda *_: Thread(target=stopping.set).start()) for number in numbers]
    try:
        yield stopping
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
