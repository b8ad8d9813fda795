"""Keeps a process in which every verb is imported; each call is a fork of it, which imports nothing again.

What a caller has goes along: words, folder, environment and the three standard streams. `python warm.py SOCKET tab u42`
asks; `python -m tests.docs.warm SOCKET` answers until it is told to stop.
"""

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

STOPS_WITHIN = 10.0


@contextmanager
def warmed(root: Path) -> Iterator[Path]:
    """Where to ask. The path is short: that of a socket ends after a hundred characters."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        command = [sys.executable, "-m", "tests.docs.warm", str(path)]
        with subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout
                assert process.stdout.readline() == b"warm\n"
                yield path
            finally:
                process.terminate()
                process.wait(STOPS_WITHIN)


def ask(path: str, words: Sequence[str]) -> int:
    """The exit code."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        call = json.dumps({"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
        socket.send_fds(line, [len(call).to_bytes(4, "big")], [0, 1, 2])
        line.sendall(call)
        return line.recv(1)[0]


def answer(path: str) -> None:
    """Returns in the process of each call alone, with that caller's words and streams."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen()
        print("warm", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            line, _ = door.accept()
            if os.fork() == 0:
                break
            line.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if caller := os.fork():
        line.sendall(bytes([os.waitstatus_to_exitcode(os.waitpid(caller, 0)[1]) & 255]))
        os._exit(0)
    become(line)


def become(line: socket.socket) -> None:
    size, streams, *_ = socket.recv_fds(line, 4, 3)
    call = json.loads(line.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
    line.close()
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.chdir(call["folder"])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.argv = ["notifier", *call["words"]]


def everything() -> Callable[[], None]:
    """Imported; returns what runs the words in sys.argv."""
    import click

    from notifier.__main__ import run
    from notifier.cli import main

    import_module("notifier.cli.context")  # verbs import it when they run
    for verb in main.list_commands(context := click.Context(main)):
        main.get_command(context, verb)
    return run


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
    run = everything()
    answer(sys.argv[1])
    run()
