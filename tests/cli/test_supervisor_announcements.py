"""The supervisor announces a service when its awaited processes are ready or change."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Signal
from threading import Thread

import pytest

from notifier.cli.supervisor.child import Child
from notifier.cli.supervisor.pid_files import PidFiles
from notifier.cli.supervisor.supervisor import Supervisor
from tests.cli.running_service import GONE_WITHIN, until


def waiting_process() -> "subprocess.Popen[bytes]":
    """Start a process that only waits to be ended."""
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], stdin=subprocess.DEVNULL, start_new_session=True
    )


@dataclass
class Service:
    folder: Path
    children: list[Child]
    announced: list[Mapping[str, int]] = field(default_factory=list)
    stopping: Signal = field(default_factory=Signal)
    thread: Thread = field(init=False)

    def __post_init__(self) -> None:
        supervisor = Supervisor(
            children=self.children,
            pid_files=PidFiles(folder=self.folder),
            is_answering=lambda: True,
            announce=self.announced.append,
            other_pids=dict,
            last_log_line=str,
            stopping=self.stopping,
        )
        self.thread = Thread(target=supervisor.run)
        self.thread.start()

    def write_pid_file(self, child: Child) -> None:
        until(lambda: child.pid is not None, GONE_WITHIN)
        assert child.pid is not None
        PidFiles(folder=self.folder).write(child.name, child.pid)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    first, second = (
        Child(name="api", start=waiting_process),
        Child(name="api-2", start=waiting_process, is_awaited=False),
    )
    running = Service(tmp_path, [first, second])
    yield running
    running.stopping.set()
    running.thread.join(GONE_WITHIN)


def test_service_is_announced_with_all_processes_once_awaited_ones_work(service: Service) -> None:
    first, second = service.children
    until(lambda: second.pid is not None, GONE_WITHIN)
    assert service.announced == []
    service.write_pid_file(first)
    until(lambda: bool(service.announced), GONE_WITHIN)
    assert service.announced == [{"api": first.pid, "api-2": second.pid}]


def test_replaced_process_is_announced_without_being_awaited(service: Service) -> None:
    first, second = service.children
    service.write_pid_file(first)
    until(lambda: bool(service.announced), GONE_WITHIN)
    assert second.process
    second.process.terminate()
    until(lambda: len(service.announced) == 2, GONE_WITHIN)
    assert service.announced[1]["api"] == service.announced[0]["api"]
    assert service.announced[1]["api-2"] != service.announced[0]["api-2"]
