"""An engine, with a server of ten lines in the place of a real one: started, frozen, killed, asked why it ended."""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from notifier.devkit.engines.engine import SCRATCH, Engine, free_port
from notifier.domain.errors import Environment

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


def made(folder: Path, program: str = SERVER) -> Engine:
    port = free_port()
    command = [sys.executable, "-c", program, str(port)]
    return Engine(name="echo", command=command, folder=folder, host="127.0.0.1", port=port)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    found = made(tmp_path / "echo")
    found.start()
    try:
        found.ready()
        yield found
    finally:
        found.kill()


def echoed(engine: Engine, within: float) -> bytes:
    with socket.create_connection((engine.host, engine.port), timeout=within) as one:
        one.sendall(b"hello\n")
        return one.recv(100)


def test_it_answers_once_it_is_ready_and_leaves_in_order_when_it_is_stopped(engine: Engine) -> None:
    assert echoed(engine, 5.0) == b"hello\n"
    engine.stop()
    assert (engine.pid, engine.answers()) == (None, False)
    assert (engine.folder / "left").exists()


def test_a_kill_gives_it_no_time_and_it_comes_back_at_the_same_address(engine: Engine) -> None:
    engine.kill()
    assert not (engine.folder / "left").exists()
    engine.start()
    engine.ready()
    assert echoed(engine, 5.0) == b"hello\n"


def test_what_its_libraries_left_behind_is_gone_when_it_starts_again(engine: Engine) -> None:
    left = engine.folder / SCRATCH / "unpacked.so"
    left.touch()
    engine.kill()
    engine.start()
    engine.ready()
    assert not left.exists()


def test_frozen_it_takes_connections_and_answers_nobody_until_it_is_woken(engine: Engine) -> None:
    engine.freeze()
    with pytest.raises(TimeoutError):
        echoed(engine, 0.3)
    engine.wake()
    assert echoed(engine, 5.0) == b"hello\n"


def test_a_frozen_one_can_be_stopped(engine: Engine) -> None:
    engine.freeze()
    engine.stop()
    assert engine.pid is None


def test_who_ends_while_it_starts_is_told_of_with_its_last_words(tmp_path: Path) -> None:
    engine = made(tmp_path, "print('no room on the disk'); raise SystemExit(1)")
    engine.start()
    with pytest.raises(Environment, match="echo ended while it started: no room on the disk"):
        engine.ready()


def test_who_never_listens_is_given_up(tmp_path: Path) -> None:
    engine = made(tmp_path, "import time; time.sleep(60)")
    engine.start()
    try:
        with pytest.raises(Environment, match=r"echo doesn't listen after 0\.1 s"):
            engine.ready(within=0.1)
    finally:
        engine.kill()


def test_a_port_that_somebody_else_has_is_refused(engine: Engine, tmp_path: Path) -> None:
    other = Engine(name="other", command=["true"], folder=tmp_path, host=engine.host, port=engine.port)
    with pytest.raises(Environment, match="where other would listen, is in use"):
        other.start()
