"""Fork server: a process that imports the roles' modules and forks roles on request.

Linux only. `forkserver_client.py` sends the requests to the server's standard input. Decision 64 compares this server
with that of `multiprocessing`.
"""

import gc
import json
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from socket import recv_fds, socket
from time import monotonic, sleep

from notifier.cli.supervisor.linux_process_calls import end_with_parent, set_command_line
from notifier.config import replace_environment

READY = b"ready"
NOT_ADOPTED = b"not adopted"
MAX_REQUEST_BYTES = 1 << 20
"""Size of the receive buffer. The kernel limits a request to about a fifth of it."""
ADOPTION_TIMEOUT_SECONDS = 2.0
"""Seconds within which `up` must adopt a forked role as its child. This normally takes microseconds."""

MODULES = (
    "notifier.__main__",
    "notifier.adapters.celery.queue",
    "notifier.api.api_process",
    "notifier.cli.supervisor.pid_files",
    "notifier.cli.supervisor.shared_metric_files",
    "notifier.cli.commands.fake",
    "notifier.cli.opened_stores",
    "notifier.cli.supervisor.pump_consumers_and_jobs",
    "workers.celery_worker",
    "workers.gc_and_watchdogs",
)
"""Modules that the roles import. Without the fork server, each role spends half a second on these imports."""
PROFILE_MODULES: Mapping[str, Sequence[str]] = {"cluster": ("notifier.profiles.cluster",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    arguments: Sequence[str]
    """Arguments of `notifier`."""
    environment: Mapping[str, str]

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def main(profile: str, parent: int) -> None:
    """Run the fork server until `up` ends. In a fork, run the requested role."""
    end_with_parent(parent)
    set_command_line([sys.executable, "-m", __spec__.name, profile, str(parent)])
    with socket(fileno=os.dup(0)) as channel:
        for module in (*MODULES, *PROFILE_MODULES.get(profile, ())):
            import_module(module)
        _freeze_objects()
        request = _serve(channel, parent)
    if request:
        _run_role(request)


def _freeze_objects() -> None:
    """Exclude all current objects from garbage collection. Raises RuntimeError if an import started a thread."""
    if threading.active_count() > 1 or len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("an import started a thread, which would be lost in a fork")
    gc.collect()
    gc.freeze()  # a role's collection would otherwise write to every shared object, and so copy its page


def _serve(channel: socket, parent: int) -> ForkRequest | None:
    """Fork a role for each request. In the fork, return the request.

    In the fork server, return None when `up` closes the channel.
    """
    channel.send(READY)
    while True:
        request_bytes, descriptors, *_ = recv_fds(channel, MAX_REQUEST_BYTES, 1)
        if not request_bytes:
            return None
        if _fork_twice():
            _report_pid(channel, parent)
            _redirect(descriptors[0])
            return ForkRequest(**json.loads(request_bytes))
        os.close(descriptors[0])


def _fork_twice() -> bool:
    """Fork a role as a child of `up`, so that it survives the fork server. Return True in the role.

    An intermediate process forks the role and ends. The kernel then gives the orphan to `up`, which is a subreaper
    during the request.
    """
    if intermediate_pid := os.fork():
        if os.waitpid(intermediate_pid, 0)[1]:
            raise OSError("the second fork failed")
        return False
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)
    return True


def _report_pid(channel: socket, parent: int) -> None:
    """Send the process id of this role to `up`. End the role if `up` has not adopted it or no longer waits for it."""
    os.setsid()
    try:
        channel.send(str(os.getpid()).encode() if _is_adopted(parent) else NOT_ADOPTED)
    except OSError:
        os._exit(1)
    if os.getppid() != parent:
        os._exit(1)


def _is_adopted(parent: int) -> bool:
    deadline = monotonic() + ADOPTION_TIMEOUT_SECONDS
    while os.getppid() != parent and monotonic() < deadline:
        sleep(0.0002)
    return os.getppid() == parent


def _redirect(log_descriptor: int) -> None:
    """Make the standard input empty, and write standard output and standard error to the log."""
    with open(os.devnull, "rb") as null:
        os.dup2(null.fileno(), 0)
    for stream in (1, 2):
        os.dup2(log_descriptor, stream)
    os.close(log_descriptor)


def _run_role(request: ForkRequest) -> None:
    from notifier import __main__ as notifier

    replace_environment(request.environment)
    sys.argv = [str(Path(notifier.__file__)), *request.arguments]
    set_command_line([sys.executable, "-m", "notifier", *request.arguments])
    notifier.run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
