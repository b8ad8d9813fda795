"""Who is up: each role leaves its process id in a file of its own once it can work."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from notifier.config import set_in_environment
from notifier.domain.errors import Full, Unwritable


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    folder: Path

    def sign(self, role: str, pid: int) -> None:
        """Raises Unwritable."""
        draft = self.folder / f".{role}.{pid}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(str(pid))
            draft.replace(self.folder / role)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise Unwritable(f"{self.folder}: {error.strerror}.") from error

    def since(self, role: str, pid: int) -> datetime | None:
        """When it signed."""
        if not self.signed(role, pid):
            return None
        return datetime.fromtimestamp((self.folder / role).stat().st_mtime, UTC)

    def signed(self, role: str, pid: int | None) -> bool:
        """A file that an earlier process left names another id."""
        try:
            return pid is not None and (self.folder / role).read_text() == str(pid)
        except OSError:
            return False


def roster(data: Path) -> Roster:
    return Roster(folder=data / "run" / "up")


# The files in which the processes of one `notifier up` share their metrics, with their room taken beforehand.

KINDS = ("counter", "histogram", "gauge_mostrecent", "gauge_sum")
"""As the library names the files of `telemetry.Metrics`, each with the role behind it."""

ROOM = 128 << 10
"""Bytes a file; a process with eight series of every metric fills more than half of its largest."""


def share(folder: Path, role: str) -> None:
    """To be called before the first metric is made. Raises Full.

    The files are the role's and not the process's: whoever replaces a dead process goes on counting where that one
    stopped. So deaths leave nothing behind, and no sum over the files ever goes back.
    """
    reserve(folder, role)
    set_in_environment("PROMETHEUS_MULTIPROC_DIR", str(folder))
    from prometheus_client import values

    values.ValueClass = values.MultiProcessValue(lambda: role)  # type: ignore[no-untyped-call] # the library's has no types


def reserve(folder: Path, role: str) -> None:
    """Raises Full.

    The library maps these files and makes them with holes; on a full disk the first count that falls into a hole would
    kill the process (SIGBUS). A file that is there, with bytes in it, is taken as it is.
    """
    draft = folder / f".{role}"
    try:
        for kind in KINDS:
            file = folder / f"{kind}_{role}.db"
            if not file.exists():
                # Renamed when it is whole: half a file would be mapped by the next process of the role.
                draft.write_bytes(bytes(ROOM))
                draft.replace(file)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise Full(f"{folder}: {error.strerror}.") from error
