"""The ready file: where a running notifier is, and with which key to talk to it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from notifier.domain.errors import FileUnwritable, NotRunning


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    url: str
    service_key: str
    pids: Mapping[str, int]
    """By role, `up` and `valkey` among them."""
    data: str
    version: str
    since: str = ""
    """When `up` began, which outlives every process that it replaces."""
    insecure_dev: bool = False
    """It lets in whoever asks at this machine."""


def ready_path(data: Path) -> Path:
    """Written by `notifier up` in every data folder, whatever other file it is asked for."""
    return data / "run" / "ready.json"


def write_ready(path: Path, ready: Ready) -> None:
    """Raises FileUnwritable."""
    replace_file(path, json.dumps(asdict(ready), indent=2) + "\n")


def replace_file(path: Path, text: str) -> None:
    """Whoever reads finds the old file or the new one, never half; ours alone to read: it may hold a key.

    Raises FileUnwritable.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise FileUnwritable(f"It is {path}: {error.strerror}.") from error


def read_ready(data: Path) -> Ready:
    """Raises NotRunning, also for a file that somebody left who was killed."""
    try:
        ready = Ready(**json.loads(ready_path(data).read_text(encoding="utf-8")))
        running = alive(ready.pids["up"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise NotRunning(f"The folder is {data}.") from error
    if not running:
        raise NotRunning(f"The folder is {data}.")
    return ready


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True
