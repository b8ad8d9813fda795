"""Pid files of the running roles, each written once its role can work."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from notifier.domain.errors import Unwritable


@dataclass(frozen=True, slots=True, kw_only=True)
class PidFiles:
    """Pid files: each role writes its process id to a file once it can work."""

    folder: Path

    def write(self, role: str, pid: int) -> None:
        """Write the process id of a role. Raises Unwritable."""
        draft = self.folder / f".{role}.{pid}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(str(pid))
            draft.replace(self.folder / role)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise Unwritable(f"{self.folder}: {error.strerror}.") from error

    def written_at(self, role: str, pid: int) -> datetime | None:
        """Return when this process wrote its pid file, or None if it did not."""
        if not self.is_written(role, pid):
            return None
        return datetime.fromtimestamp((self.folder / role).stat().st_mtime, UTC)

    def is_written(self, role: str, pid: int | None) -> bool:
        """Return whether this process wrote the pid file of the role.

        The file of an earlier process has another id.
        """
        try:
            return pid is not None and (self.folder / role).read_text() == str(pid)
        except OSError:
            return False


def pid_files_of(data: Path) -> PidFiles:
    return PidFiles(folder=data / "run" / "up")
