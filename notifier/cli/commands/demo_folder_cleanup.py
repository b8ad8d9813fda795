"""Data folder of a demo: which folders are accepted, and removal of an earlier demo."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from notifier.cli.commands.fake import FAKES_ROLE
from notifier.cli.supervisor.forkserver_client import LOG_NAME
from notifier.cli.supervisor.role_processes import ROLES
from notifier.devkit.fixture.world_loader_and_markers import (
    DEMO_LOADED_MARKER,
    DEMO_LOADING_MARKER,
    DEMO_REMOVAL_MARKER,
    FIXTURE_MARKER,
    WORLD_MARKERS,
    is_world_marker,
)
from notifier.domain.errors import NotADataFolder, Unwritable

# Files that a notifier creates in its data folder, and that `remove_demo_data` removes.

DEMO_MARKERS = (DEMO_REMOVAL_MARKER, DEMO_LOADED_MARKER, DEMO_LOADING_MARKER)
STORE_FILE_PATTERNS = tuple(
    f"{store}.db{suffix}"
    for store in ("core", "log", "inbox-[0-9][0-9]")
    for suffix in ("", "-wal", "-shm", "-journal")  # SQLite's own suffixes; core.db.bak would be the user's
)
OWNED_FILE_PATTERNS = (
    *STORE_FILE_PATTERNS,
    # The progress of each import. A resumed import would skip the rows that are removed with the stores.
    f"imports/{'[0-9a-f]' * 16}",
    "alerts.ndjson",
    "secret.json",
    "service_keys.json",
    ".service_keys.json.lock",
    *(
        f"logs/{role}{number}.log{rotation}"
        for role in (*ROLES, FAKES_ROLE)
        for number in ("", "-[0-9]", "-[0-9][0-9]")
        for rotation in ("", ".1")
    ),
    *(
        f"run/{name}"
        for name in (
            "heartbeats",
            "metrics",
            "up",
            "valkey",
            "ready.json",
            "redis.url",
            "profile",
            "loading",
            "push.toml",
        )
    ),
    *(f"{marker}{suffix}" for marker in (FIXTURE_MARKER, *DEMO_MARKERS) for suffix in ("", ".new")),
)
"""Patterns of the files that a notifier owns, in the order of their removal.

The markers come last, so that an interrupted removal leaves a folder that is still known as a demo's.
"""
KEPT_FILES = (Path("run", "lock"), Path("logs", f"{LOG_NAME}.log"))
"""Files in the data folder that are never removed.

Another process could lock a new file beside the old lock file. The fork server starts before the removal, and writes to
its log.
"""


def require_own_folder(data: Path) -> None:
    """Raise NotADataFolder if the folder contains files of other software.

    A folder with a store or a marker of a notifier is accepted, whatever else it contains.
    """
    if any(next(data.glob(store), None) for store in STORE_FILE_PATTERNS) or any(
        is_world_marker(data / marker) for marker in WORLD_MARKERS
    ):
        return
    expected = {*_owned_files(data), *(data / name for name in KEPT_FILES)}
    for path in data.rglob("*"):
        if path.is_file() and expected.isdisjoint((path, *path.parents)):
            raise NotADataFolder(f"{data} contains {path.relative_to(data)}.")


def remove(path: Path) -> None:
    """Remove a file or a folder. For a symbolic link, remove only the link itself."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_demo_data(data: Path, remove: Callable[[Path], None] = remove) -> None:
    """Remove a notifier's files from a demo's folder, except KEPT_FILES.

    The caller must hold the lock. Raises Unwritable, and NotADataFolder if there are a notifier's files but no marker
    of a demo.
    """
    markers = [data / marker for marker in DEMO_MARKERS if is_world_marker(data / marker)]
    if not markers:
        if has_owned_files(data):
            raise NotADataFolder(f"{data} was not created by the demo.")
        return
    try:
        # Rename the marker first: after a crash, the next demo finds it and continues the removal.
        markers[0].replace(data / DEMO_REMOVAL_MARKER)
        for path in _owned_files(data):
            if path != data / DEMO_REMOVAL_MARKER:
                remove(path)
        (data / DEMO_REMOVAL_MARKER).unlink()
    except OSError as error:
        raise Unwritable(f"{data}: {error.strerror}.") from error


def is_partly_removed(data: Path) -> bool:
    return is_world_marker(data / DEMO_REMOVAL_MARKER)


def has_owned_files(data: Path) -> bool:
    return next(_owned_files(data), None) is not None


def _owned_files(data: Path) -> Iterator[Path]:
    for name in OWNED_FILE_PATTERNS:
        yield from sorted(data.glob(name))
