"""A RabbitMQ server as an engine, with its own epmd, which would otherwise outlive it."""

import os
import shutil
from pathlib import Path

from notifier.devkit.engines.engine_process import Engine

HOST = "127.0.0.1"
USER = "notifier"
DEBIAN_BINARY = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The server itself. The wrapper in /usr/sbin calls it, as another user if it can."""
SETTINGS = """\
listeners.tcp.1 = {host}:{port}
default_user = {user}
default_pass = {password}
vm_memory_high_watermark.absolute = 512MiB
disk_free_limit.absolute = 50MB
log.console = true
log.console.level = warning
log.file = false
"""


def missing() -> str | None:
    """Return the name of a missing program, or None."""
    return next((name for name, path in (("rabbitmq-server", _binary()), ("epmd", _epmd())) if path is None), None)


def names(folder: Path, *, port: int) -> Engine:
    """Return Erlang's port mapper.

    Start it before the server; otherwise the server starts one that outlives it.
    """
    command = [str(_epmd()), "-port", str(port), "-address", HOST]
    return Engine(name="epmd", command=command, folder=folder, host=HOST, port=port)


def server(folder: Path, *, port: int, distribution: int, names: int, password: str) -> Engine:
    """Return the server; `distribution` is its port for other nodes, `names` the port of its port mapper."""
    folder.mkdir(parents=True, exist_ok=True)
    home = folder.absolute()
    settings = home / "rabbitmq.conf"
    settings.touch(mode=0o600)
    settings.write_text(SETTINGS.format(host=HOST, port=port, user=USER, password=password))
    environment = {
        "HOME": home,  # for the Erlang cookie
        "ERL_EPMD_PORT": names,
        # The script execs the server, so killing its process kills the server and not a shell.
        "RABBITMQ_ALLOW_INPUT": 1,
        "RABBITMQ_NODENAME": "notifier@localhost",
        "RABBITMQ_MNESIA_BASE": home / "db",
        "RABBITMQ_LOG_BASE": home / "log",
        "RABBITMQ_PID_FILE": home / "pid",
        "RABBITMQ_CONFIG_FILE": settings,
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_ENABLED_PLUGINS_FILE": home / "plugins",
        "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_DIST_PORT": distribution,
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    command = ["env", *(f"{name}={value}" for name, value in environment.items()), str(_binary()), "-noinput"]
    return Engine(name="rabbitmq", command=command, folder=folder, host=HOST, port=port)


def _binary() -> Path | None:
    path = shutil.which("rabbitmq-server")
    return DEBIAN_BINARY if DEBIAN_BINARY.exists() else Path(path) if path else None


def _epmd() -> Path | None:
    path = shutil.which("epmd")
    return Path(path) if path else None
