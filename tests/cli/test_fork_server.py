"""A forked role behaves like one with its own interpreter, and survives the fork server."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import psutil
import pytest

from notifier.cli.supervisor.child import make_start
from notifier.cli.supervisor.forkserver import MODULES
from notifier.cli.supervisor.forkserver_client import MAX_CONSECUTIVE_FAILURES, ForkServer, RoleProcess
from notifier.config import PROFILES
from tests.cli.fork_server_and_roles import STARTS_WITHIN, fork_role, fork_server
from tests.cli.running_service import is_running, until

ENDS_WITHIN = 60.0
"""Seconds, on a machine that is busy with other tests; an idle one needs one."""
BROKEN = {"PYTHONHOME": "/nowhere"}
"""No interpreter starts with this environment."""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    with fork_server(tmp_path_factory.mktemp("forks")) as started:
        yield started


def long_running(forks: ForkServer, folder: Path) -> RoleProcess:
    """Return a role that runs until it is stopped."""
    role = fork_role(forks, folder / "role.log", "fake", "apns", "--ready-file", str(folder / "ready.json"))
    until((folder / "ready.json").exists, ENDS_WITHIN)
    return role


@pytest.mark.timeout(400)
@pytest.mark.parametrize("profile", PROFILES)
def test_imports_of_profile_leave_nothing_that_fork_would_lose(profile: str, tmp_path: Path) -> None:
    """The process has one thread, no open file except three streams and the channel, and catches no signal."""
    with fork_server(tmp_path, profile) as forks:
        fork_role(forks, tmp_path / "role.log", "--version").wait(ENDS_WITHIN)
        assert forks.process
        proc = Path("/proc") / str(forks.process.pid)
        assert len(list((proc / "task").iterdir())) == 1
        until(lambda: len(list((proc / "fd").iterdir())) == 4, ENDS_WITHIN)  # once the log of the role is closed
        # A run that was started in the background ignores SIGINT, and so do all processes that it starts.
        ignored = signals(proc, "SigIgn")
        assert signals(proc, "SigCgt") == {signal.SIGINT} - ignored, "only Python's own SIGINT handler is allowed"
        assert (signal.SIGINT in ignored) == (signal.getsignal(signal.SIGINT) is signal.SIG_IGN)


def signals(process: Path, kind: str) -> set[int]:
    [mask] = [line.split()[1] for line in (process / "status").read_text().splitlines() if line.startswith(kind)]
    return {number for number in range(1, 65) if int(mask, 16) >> (number - 1) & 1}


@pytest.mark.timeout(400)
def test_forked_role_has_its_arguments_environment_log_and_code(forks: ForkServer, tmp_path: Path) -> None:
    valid = fork_role(forks, tmp_path / "right.log", "settings", "--json", NOTIFIER_THRESHOLD="4711")
    invalid = fork_role(forks, tmp_path / "wrong.log", "sing")
    assert (valid.wait(ENDS_WITHIN), invalid.wait(ENDS_WITHIN)) == (0, 2)
    assert json.loads((tmp_path / "right.log").read_text())["threshold"]["value"] == "4711"
    assert (tmp_path / "wrong.log").read_text().startswith("Unknown command 'sing'")


@pytest.mark.timeout(400)
def test_forked_role_is_child_of_up_with_own_group_and_name(forks: ForkServer, tmp_path: Path) -> None:
    role = long_running(forks, tmp_path)
    process = psutil.Process(role.pid)
    assert (process.ppid(), os.getpgid(role.pid), os.getsid(role.pid)) == (os.getpid(), role.pid, role.pid)
    assert process.cmdline()[:5] == [sys.executable, "-m", "notifier", "fake", "apns"]
    assert forks.process
    assert psutil.Process(forks.process.pid).cmdline()[:4] == [
        sys.executable, "-m", "notifier.cli.supervisor.forkserver", "embedded",
    ]  # fmt: skip
    role.terminate()
    assert role.wait(ENDS_WITHIN) == 0
    assert not is_running(role.pid)


@pytest.mark.timeout(400)
def test_roles_survive_fork_server_which_is_replaced(forks: ForkServer, tmp_path: Path) -> None:
    role = long_running(forks, tmp_path)
    assert forks.process
    first_pid = forks.process.pid
    os.kill(first_pid, signal.SIGKILL)
    forks.process.wait()
    assert fork_role(forks, tmp_path / "next.log", "--version").wait(ENDS_WITHIN) == 0
    assert forks.process.pid != first_pid
    assert role.poll() is None
    os.killpg(role.pid, signal.SIGKILL)
    assert role.wait(ENDS_WITHIN) == -signal.SIGKILL


@pytest.mark.timeout(400)
def test_hanging_fork_server_is_killed_and_leaves_no_process(forks: ForkServer, tmp_path: Path) -> None:
    fork_role(forks, tmp_path / "role.log", "--version").wait(ENDS_WITHIN)
    assert forks.process
    hung = forks.process.pid
    os.kill(hung, signal.SIGSTOP)
    timeout, forks.fork_timeout = forks.fork_timeout, 0.5
    began = monotonic()
    with (tmp_path / "role.log").open("ab") as log:
        assert forks.fork(["fake", "apns"], {}, log) is None
    forks.fork_timeout = timeout
    assert monotonic() < began + ENDS_WITHIN
    assert not is_running(hung)
    assert fork_servers() == set()


def fork_servers() -> set[int]:
    """Return the process ids of all fork servers below this process."""
    children = psutil.Process().children(recursive=True)
    return {child.pid for child in children if "notifier.cli.supervisor.forkserver" in command_line(child)}


def command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


@pytest.mark.timeout(400)
def test_fork_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from notifier.cli.supervisor.forkserver_client import ForkServer
forks = ForkServer(profile="embedded", log=Path({str(tmp_path / "log")!r}))
forks.poll_starting()
print(forks.process.pid, flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        assert is_running(pid)
        process.kill()
    until(lambda: not is_running(pid), ENDS_WITHIN)


@pytest.mark.timeout(400)
def test_role_gets_own_interpreter_when_fork_server_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = tmp_path / "role.log"
    broken = ForkServer(profile="embedded", log=tmp_path / "forkserver.log", environment=BROKEN)
    start, processes = make_start(["--version"], {}, log, broken), list[RoleProcess]()

    def started() -> bool:
        processes.extend(filter(None, [start()]))
        return bool(processes)

    with caplog.at_level(logging.WARNING):
        until(started, STARTS_WITHIN)
        assert isinstance(processes[0], subprocess.Popen)
        processes[0].wait(ENDS_WITHIN)
        next_process = start()
    assert isinstance(next_process, subprocess.Popen), "the fork server is not tried a third time"
    next_process.wait(ENDS_WITHIN)
    assert [message.partition(",")[0] for message in caplog.messages] == [
        f"{MAX_CONSECUTIVE_FAILURES} consecutive failures of the fork server"
    ]
    assert broken.failure_count == MAX_CONSECUTIVE_FAILURES
    assert log.read_text().count("No such option '--parent'.") == 2


def test_role_gets_own_interpreter_without_fork_server(tmp_path: Path) -> None:
    process = make_start(["sing"], {}, tmp_path / "role.log", None)()
    assert isinstance(process, subprocess.Popen)
    assert process.wait(ENDS_WITHIN) == 2


@pytest.mark.timeout(400)
def test_notifier_restores_sigchld_when_its_parent_ignores_it(tmp_path: Path) -> None:
    """The ignored signal is inherited: no process could wait for a child, or know its exit code."""
    parent = [
        "import os, signal, sys",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "os.execv(sys.executable, sys.argv[1:])",
    ]
    arguments = [sys.executable, "-m", "notifier", "fake", "apns", "--ready-file", str(tmp_path / "ready.json")]
    with subprocess.Popen([sys.executable, "-c", "; ".join(parent), *arguments], stdout=subprocess.DEVNULL) as process:
        until((tmp_path / "ready.json").exists, STARTS_WITHIN)
        ignored = signals(Path("/proc") / str(process.pid), "SigIgn")
        process.terminate()
        assert process.wait(ENDS_WITHIN) == 0
    assert signal.SIGCHLD not in ignored


def test_fork_server_imports_everything_for_a_role_that_queues_tasks() -> None:
    script = f"""
import sys
from importlib import import_module
for module in {MODULES!r}: import_module(module)
imported = {{*sys.modules}}
import notifier.adapters.celery.queue
print(sorted({{*sys.modules}} - imported))
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "[]\n"
