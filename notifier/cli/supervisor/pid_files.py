"""Pid files, with which processes report that they can work."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from notifier.domain.errors import Unwritable


@dataclass(frozen=True, slots=True, kw_only=True)
class PidFiles:
    """One file per process, with the name of the process and its id as the content."""

    folder: Path

    def write(self, process_name: str, pid: int) -> None:
        draft = self.folder / f".{process_name}.{pid}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(str(pid))
            draft.replace(self.folder / process_name)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise Unwritable(f"{self.folder}: {error.strerror}.") from error

    def written_at(self, process_name: str, pid: int) -> datetime | None:
        """Return when the process with this id wrote its pid file."""
        if not self.is_written(process_name, pid):
            return None
        return datetime.fromtimestamp((self.folder / process_name).stat().st_mtime, UTC)

    def is_written(self, process_name: str, pid: int | None) -> bool:
        """Return whether the process with this id wrote the pid file.

        The file of an earlier process with the same name has another id.
        """
        try:
            return pid is not None and (self.folder / process_name).read_text() == str(pid)
        except OSError:
            return False


def pid_files_of(data: Path) -> PidFiles:
    return PidFiles(folder=data / "run" / "up")
