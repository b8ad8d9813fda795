"""The data folder as a place on this machine: made, writable, with room left."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from notifier.cli.commands.fake import ROLE
from notifier.cli.supervisor.forkserver_client import LOG_NAME
from notifier.cli.supervisor.processes import ROLES
from notifier.devkit.fixture.load import DEMO, DEMO_BEGUN, DEMO_ENDING, NOTE, NOTES, notes_a_world
from notifier.domain.errors import NotOurs, Unwritable


def prepare(data: Path) -> None:
    """Makes the folder if it isn't there, for nobody else to read. Raises Unwritable."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unwritable(f"{data}: {os.strerror(error.errno or 0)}.") from error
    probe(data)


def probe(data: Path) -> None:
    """Writes a file and takes it away again: permissions alone don't tell of a full or read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=data) as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        raise Unwritable(f"{data}: {os.strerror(error.errno or 0)}.") from error


# What a notifier makes in its data folder, as a closed list of names: by it a folder is known, and emptied.

DEMOS = (DEMO_ENDING, DEMO, DEMO_BEGUN)
STORES = tuple(
    f"{store}.db{beside}"
    for store in ("core", "log", "inbox-[0-9][0-9]")
    for beside in ("", "-wal", "-shm", "-journal")  # what SQLite keeps with each; a copy that somebody made is not ours
)
BELONGINGS = (
    *STORES,
    "alerts.ndjson",
    "secret.json",
    "service_keys.json",
    ".service_keys.json.lock",
    *(
        f"logs/{role}{more}.log{older}"
        for role in (*ROLES, ROLE, LOG_NAME)
        for more in ("", "-[0-9]", "-[0-9][0-9]")
        for older in ("", ".1")
    ),
    *(
        f"run/{name}"
        for name in ("beats", "metrics", "up", "valkey", "ready.json", "redis.url", "profile", "loading", "push.toml")
    ),
    *(f"{note}{draft}" for note in (NOTE, *DEMOS) for draft in ("", ".new")),
)
"""In the order in which they go: the notes last, by which a folder that was half emptied is still known as a demo's."""
LOCK = Path("run", "lock")


def require_ours(data: Path) -> None:
    """Raises NotOurs for a folder in which there is something, and nothing that says a notifier put it there."""
    if any(next(data.glob(store), None) for store in STORES) or any(notes_a_world(data / note) for note in NOTES):
        return
    own = set(_belongings(data))
    for path in data.rglob("*"):
        if path.is_file() and path != data / LOCK and own.isdisjoint((path, *path.parents)):
            raise NotOurs(f"In {data} there is {path.relative_to(data)}.")


def remove(path: Path) -> None:
    """A link goes, and what it leads to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def forget(data: Path, remove: Callable[[Path], None] = remove) -> None:
    """Throws away what a demo kept, and nothing else that is there. Raises NotOurs for a folder that isn't a demo's,
    as one isn't that has somebody else's demo.json.

    For the process that holds the folder's lock, whose file stays: another that waits at it waits at the same one.
    """
    notes = [data / note for note in DEMOS if notes_a_world(data / note)]
    if not notes:
        if not untouched(data):
            raise NotOurs(f"{data} wasn't made by the demo.")
        return
    try:
        # First: a crash from here on leaves a folder that the next demo goes on emptying, whatever it holds by then.
        notes[0].replace(data / DEMO_ENDING)
        for path in _belongings(data):
            if path != data / DEMO_ENDING:
                remove(path)
        (data / DEMO_ENDING).unlink()
    except OSError as error:
        raise Unwritable(f"{data}: {error.strerror}.") from error


def half_forgotten(data: Path) -> bool:
    return notes_a_world(data / DEMO_ENDING)


def untouched(data: Path) -> bool:
    """Whether nothing is there yet that a notifier makes, but for the lock."""
    return next(_belongings(data), None) is None


def _belongings(data: Path) -> Iterator[Path]:
    for name in BELONGINGS:
        yield from sorted(data.glob(name))
