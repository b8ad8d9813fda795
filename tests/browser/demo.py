"""A real `notifier demo` in a process of its own, with a world that is small enough to be there at once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

STARTS_WITHIN = 40.0
FOLLOWERS = 20_000_000


@contextmanager
def demo(data: Path, said: list[str] | None = None, *more: str) -> Iterator[str]:
    """Its address, once its world is whole; it is told to stop as by Ctrl-C, and must end cleanly.

    What it said is added to `said` at its end; `more` are words for it.
    """
    words = ["demo", "--keep", str(data), "--port", "0", "--no-open", "--followers", str(FOLLOWERS), *more]
    own = {name: value for name, value in os.environ.items() if not name.startswith("NOTIFIER_")}
    process = subprocess.Popen([sys.executable, "-m", "notifier", *words], stdout=subprocess.PIPE, text=True, env=own)
    try:
        yield _address(process, data)
    finally:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0, out
    if said is not None:
        said.append(out)


def _address(process: "subprocess.Popen[str]", data: Path) -> str:
    deadline = monotonic() + STARTS_WITHIN
    while not (data / "demo.json").exists() or not (data / "run" / "ready.json").exists():
        assert process.poll() is None, "the demo has ended"
        assert monotonic() < deadline, f"the demo wasn't there within {STARTS_WITHIN} s"
        sleep(0.05)
    return str(json.loads((data / "run" / "ready.json").read_text())["url"])
