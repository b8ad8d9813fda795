"""Who is up: each role leaves its process id in a file of its own once it can work."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from notifier.domain.errors import Unwritable


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
