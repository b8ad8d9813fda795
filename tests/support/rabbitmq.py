"""A RabbitMQ server as an engine, and the name server that Erlang needs, which would stay behind if it weren't ours."""

import os
import shutil
from pathlib import Path

from notifier.devkit.engines.engine import Engine

HOST = "127.0.0.1"
USER = "notifier"
DEBIANS = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""What the one in /usr/sbin calls, as another user if it can."""
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
    """What isn't found of all that is needed."""
    return next((name for name, found in (("rabbitmq-server", _binary()), ("epmd", _epmd())) if found is None), None)


def names(folder: Path, *, port: int) -> Engine:
    """Erlang's port mapper. To be started before the server; otherwise the server starts one that outlives it."""
    command = [str(_epmd()), "-port", str(port), "-address", HOST]
    return Engine(name="epmd", command=command, folder=folder, host=HOST, port=port)


def server(folder: Path, *, port: int, distribution: int, names: int, password: str) -> Engine:
    """`distribution` is the port on which other nodes would find it, `names` that of its port mapper."""
    folder.mkdir(parents=True, exist_ok=True)
    home = folder.absolute()
    settings = home / "rabbitmq.conf"
    settings.touch(mode=0o600)
    settings.write_text(SETTINGS.format(host=HOST, port=port, user=USER, password=password))
    environment = {
        "HOME": home,  # of the cookie
        "ERL_EPMD_PORT": names,
        # The script becomes the server, and whoever kills its process kills no shell in its place.
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
    found = shutil.which("rabbitmq-server")
    return DEBIANS if DEBIANS.exists() else Path(found) if found else None


def _epmd() -> Path | None:
    found = shutil.which("epmd")
    return Path(found) if found else None
