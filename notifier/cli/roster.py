"""Who is up: each role leaves its process id in a file of its own once it can work."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    folder: Path

    def sign(self, role: str, pid: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f".{role}.{pid}"
        draft.write_text(str(pid))
        draft.replace(self.folder / role)

    def signed(self, role: str, pid: int | None) -> bool:
        """A file that an earlier process left names another id."""
        try:
            return pid is not None and (self.folder / role).read_text() == str(pid)
        except OSError:
            return False


def roster(data: Path) -> Roster:
    return Roster(folder=data / "run" / "up")
