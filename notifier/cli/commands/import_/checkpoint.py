"""What an import keeps between its lives: which file it reads, that nobody else does, and what it couldn't take."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from notifier.domain.errors import BadImport, Environment, Full

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

    @property
    def passing(self) -> bool:
        """The standard input or a pipe: what was read of it never comes again."""
        return self.stdin or not self.file.is_file()

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
        return not self.passing and self._begun.exists() and self._begun.read_text() == self._words(how)

    def begin(self, how: str) -> None:
        """Nothing of an earlier one is left. Cut off before this, it begins anew."""
        self._begun.write_text(self._words(how))

    def leave(self) -> None:
        """The next one begins anew, whatever the file is by then."""
        self._begun.unlink(missing_ok=True)

    def seen(self) -> str:
        """The file as it is now."""
        if self.passing:
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
    _kept: int = field(init=False)
    _file: BinaryIO = field(init=False)

    def __post_init__(self) -> None:
        """Raises BadImport for a place where no file can be written."""
        try:
            self._file = self.path.open("a+b")
        except OSError as error:
            raise BadImport(f"{self.path} is for the rows that can't be taken: {error.strerror or error}.") from error
        self._file.seek(0)
        whole = 0
        for line in self._file:
            try:
                self._last = json.loads(line)["line"]
            except ValueError:  # torn by a full disk or a power cut; its row is read again, and so is what came behind
                self._file.truncate(whole)
                break
            self.count, whole = self.count + 1, whole + len(line)
        self._kept = self.count

    def __call__(self, line: int, why: str) -> None:
        """Raises Full. A line at a time: what was told stands when this process dies."""
        if line > self._last:
            try:
                self._file.write(json.dumps({"line": line, "reason": why}).encode() + b"\n")
                self._file.flush()
            except OSError as error:
                raise Full(f"{self.path}: {error.strerror}.") from error
            self.count += 1

    def keep(self) -> None:
        """What was told survives a power cut, as what is known of its rows does: they aren't read again."""
        if self._kept < self.count and self.path.is_file():
            os.fsync(self._file.fileno())
        self._kept = self.count

    def close(self) -> None:
        with suppress(OSError):  # of a line that was refused already
            self._file.close()
