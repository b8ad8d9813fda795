"""What an import keeps between its lives: which file it reads, that nobody else does, and what it couldn't take."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TextIO

from notifier.domain.errors import BadImport, Environment

STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    file: Path
    folder: Path
    """Of this path and of what its rows are, whatever is in the file."""

    @classmethod
    def of(cls, data: Path, rows: str, file: Path) -> "Checkpoint":
        name = STDIN if str(file) == STDIN else str(file.resolve())
        digest = blake2b(f"{rows} {name}".encode(), digest_size=8)
        return cls(file=file, folder=data / "imports" / digest.hexdigest())

    @property
    def stdin(self) -> bool:
        return str(self.file) == STDIN

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises Environment where another process has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Environment(f"Another process is importing {self.file} right now.") from None
            yield

    def goes_on(self, how: str) -> bool:
        """Whether what was read before is of the file as it is now, and was meant in the same way."""
        return not self.stdin and self._begun.exists() and self._begun.read_text() == self._words(how)

    def begin(self, how: str) -> None:
        """Nothing of an earlier one is left. Cut off before this, it begins anew."""
        self._begun.write_text(self._words(how))

    def leave(self) -> None:
        """The next one begins anew, whatever the file is by then."""
        self._begun.unlink(missing_ok=True)

    def seen(self) -> str:
        """The file as it is now."""
        if self.stdin:
            return STDIN
        now = self.file.stat()
        return f"{now.st_size} bytes of {now.st_mtime_ns}"

    def require_same(self, seen: str) -> None:
        """Raises BadImport: what is read from now on may be of other rows."""
        if self.seen() != seen:
            raise BadImport(f"{self.file.name} changed while it was read; the same command begins anew.")

    @property
    def _begun(self) -> Path:
        return self.folder / "begun"

    def _words(self, how: str) -> str:
        return f"{self.seen()}, {how}\n"


@dataclass(slots=True)
class Rejects:
    """Rows that can't be taken, in a file, each once however often the import is cut off: they come in order."""

    path: Path
    count: int = 0
    _last: int = 0
    _file: TextIO = field(init=False)

    def __post_init__(self) -> None:
        # A line at a time: what was told stands when this process dies.
        self._file = self.path.open("a+", buffering=1)
        self._file.seek(0)
        for line in self._file:
            self.count, self._last = self.count + 1, json.loads(line)["line"]

    def __call__(self, line: int, why: str) -> None:
        if line > self._last:
            self._file.write(json.dumps({"line": line, "reason": why}) + "\n")
            self.count += 1

    def close(self) -> None:
        self._file.close()
