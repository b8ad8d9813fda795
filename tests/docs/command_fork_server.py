"""Runs each command in a fork of a process that has imported all commands already."""

# A call passes the caller's arguments, folder, environment and standard streams.
# `python command_fork_server.py SOCKET inbox u42` is a call.
# `python -m tests.docs.command_fork_server SOCKET` serves calls until it is stopped.

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

STOP_TIMEOUT = 10.0


@contextmanager
def running_command_server(root: Path) -> Iterator[Path]:
    """Yield the socket's path. It is short, because socket paths end after about a hundred characters."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        command = [sys.executable, "-m", "tests.docs.command_fork_server", str(path)]
        with subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout
                assert process.stdout.readline() == b"warm\n"
                yield path
            finally:
                process.terminate()
                process.wait(STOP_TIMEOUT)


def call_server(path: str, arguments: Sequence[str]) -> int:
    """Run a command in the server, and return its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        request = json.dumps({"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
        socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
        connection.sendall(request)
        return connection.recv(1)[0]


def serve(path: str) -> None:
    """Serve calls. Returns only in the forked process of a call, with the caller's arguments and streams."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("warm", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if child := os.fork():
        connection.sendall(bytes([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255]))
        os._exit(0)
    take_over_caller(connection)


def take_over_caller(connection: socket.socket) -> None:
    size, streams, *_ = socket.recv_fds(connection, 4, 3)
    request = json.loads(connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
    connection.close()
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["notifier", *request["arguments"]]


def import_commands() -> Callable[[], None]:
    """Import all commands, and return the function that runs the arguments in sys.argv."""
    import click

    from notifier.__main__ import run
    from notifier.cli import main

    import_module("notifier.cli.opened_stores")  # imported by commands when they run
    for verb in main.list_commands(context := click.Context(main)):
        main.get_command(context, verb)
    return run


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(call_server(sys.argv[1], sys.argv[2:]))
    run = import_commands()
    serve(sys.argv[1])
    run()
