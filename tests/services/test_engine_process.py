"""The engine process wrapper, with a ten-line echo server in place of a real engine."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from notifier.devkit.engines.engine_process import SCRATCH_FOLDER, Engine, free_port
from notifier.domain.errors import UnusableEnvironment

SERVER = """
import signal, socketserver, sys
from pathlib import Path
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)
signal.signal(signal.SIGTERM, lambda *_: (Path("left").touch(), sys.exit()))
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer.daemon_threads = True
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
"""


def echo_engine(folder: Path, program: str = SERVER) -> Engine:
    port = free_port()
    command = [sys.executable, "-c", program, str(port)]
    return Engine(name="echo", command=command, folder=folder, host="127.0.0.1", port=port)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = echo_engine(tmp_path / "echo")
    engine.start()
    try:
        engine.wait_until_ready()
        yield engine
    finally:
        engine.kill()


def echo(engine: Engine, within: float) -> bytes:
    with socket.create_connection((engine.host, engine.port), timeout=within) as connection:
        connection.sendall(b"hello\n")
        return connection.recv(100)


def test_engine_answers_when_ready_and_stops_cleanly(engine: Engine) -> None:
    assert echo(engine, 5.0) == b"hello\n"
    engine.stop()
    assert (engine.pid, engine.is_listening()) == (None, False)
    assert (engine.folder / "left").exists()


def test_killed_engine_restarts_at_same_address(engine: Engine) -> None:
    engine.kill()
    assert not (engine.folder / "left").exists()
    engine.start()
    engine.wait_until_ready()
    assert echo(engine, 5.0) == b"hello\n"


def test_start_removes_scratch_files_of_libraries(engine: Engine) -> None:
    scratch_file = engine.folder / SCRATCH_FOLDER / "unpacked.so"
    scratch_file.touch()
    engine.kill()
    engine.start()
    engine.wait_until_ready()
    assert not scratch_file.exists()


def test_frozen_engine_answers_only_after_wake(engine: Engine) -> None:
    engine.freeze()
    with pytest.raises(TimeoutError):
        echo(engine, 0.3)
    engine.resume()
    assert echo(engine, 5.0) == b"hello\n"


def test_frozen_engine_can_be_stopped(engine: Engine) -> None:
    engine.freeze()
    engine.stop()
    assert engine.pid is None


def test_engine_that_ends_during_start_is_reported_with_output(tmp_path: Path) -> None:
    engine = echo_engine(tmp_path, "print('no room on the disk'); raise SystemExit(1)")
    engine.start()
    with pytest.raises(UnusableEnvironment, match="echo ended during startup: no room on the disk"):
        engine.wait_until_ready()


def test_engine_that_never_listens_times_out(tmp_path: Path) -> None:
    engine = echo_engine(tmp_path, "import time; time.sleep(60)")
    engine.start()
    try:
        with pytest.raises(UnusableEnvironment, match=r"echo doesn't listen after 0\.1 s"):
            engine.wait_until_ready(timeout=0.1)
    finally:
        engine.kill()


def test_port_in_use_is_refused(engine: Engine, tmp_path: Path) -> None:
    second = Engine(name="other", command=["true"], folder=tmp_path, host=engine.host, port=engine.port)
    with pytest.raises(UnusableEnvironment, match="the address of other, is in use"):
        second.start()
