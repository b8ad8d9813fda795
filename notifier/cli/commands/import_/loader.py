"""A file on its way into the store: read, written as rows, and counted in by whoever keeps the bitmaps."""

import fcntl
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from notifier import topics
from notifier.cli.context import owner
from notifier.cli.http import RequestTimeout
from notifier.cli.output import progress
from notifier.config import Settings
from notifier.consumer_loop import Pump, pump
from notifier.domain.errors import BadImport, Environment, Full
from notifier.flow.imports.importer import Import, Matter
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports
from notifier.ports.event_log import EventLog, Logged
from notifier.ports.imports import Some
from notifier.profiles.import_sources import Ignore, Layout, Source, SpilledEdges, opened
from notifier.wiring.system import build_system

# What an import keeps between its lives: which file it reads, that nobody else does, and what it couldn't take.

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


# The help of who keeps the bitmaps: a verb that left work takes part in it until that is done, whoever else runs.

TURN = timedelta(seconds=0.25)


@dataclass(slots=True)
class IndexerBacklog:
    """What the stream's readers hadn't done when this was made."""

    log: EventLog
    stream: str
    count: int = 0
    _ends: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for record in self._records():
            self._ends[record.partition] = record.offset
            self.count += 1

    def left(self) -> bool:
        """What came since is somebody else's."""
        return any(map(self._mine, self._records()))

    def _records(self) -> Iterable[Logged]:
        return self.log.waiting(self.stream, topics.GROUPS[self.stream], sys.maxsize)

    def _mine(self, record: Logged) -> bool:
        return record.offset <= self._ends.get(record.partition, -1)


def index(
    ports: Ports,
    settings: Settings,
    waiting: IndexerBacklog,
    patience: RequestTimeout,
    advance: Callable[[int], object],
) -> None:
    system = build_system(ports=ports, settings=settings, metrics=Metrics(), owner=owner("import", ports.nonces.new()))
    helper = pump(system, waiting.stream)
    with closing(helper.consumer):
        while waiting.left():
            patience(lambda: _step(helper, advance))


def _step(helper: Pump, advance: Callable[[int], object]) -> None:
    advance(helper.step(TURN))


S = TypeVar("S", bound=Some)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freight(Generic[S]):
    """What the rows of a file are."""

    name: str
    """As the verb has it."""
    layout: Layout[S]
    matter: Callable[[Ports], Matter[S]]
    left: str
    """What is written behind the reading."""
    stream: str
    """Whose readers are asked for the bitmaps."""
    as_read: bool
    """Rows are written as they are read. Else nothing is before the file was found to be whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    read: int
    """Rows, those that were rejected among them."""
    left: int
    """Of followers: the follows."""
    rejected: int
    ignored: Collection[str]
    """Columns that nothing was read of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRun(Generic[S]):
    freight: Freight[S]
    checkpoint: Checkpoint
    """Held."""
    form: str
    how: str
    """What else decides what is made of a row."""
    rejects: Path | None
    at_once: int
    quiet: bool

    @property
    def told(self) -> Path:
        return self.rejects or self.checkpoint.folder / "rejects.ndjson"

    def __call__(self, ports: Ports, settings: Settings) -> Loaded:
        """Raises BadImport, also for a file of rejects that would be overwritten, and Environment without the extra."""
        edges, patience = SpilledEdges(self.checkpoint.folder), RequestTimeout()
        work = Import(matter=self.freight.matter(ports), edges=edges, patience=patience)
        ignored = dict[str, None]()
        self._begin(work, edges)
        try:
            rejected = self._read(work, edges, lambda names: ignored.update(dict.fromkeys(names)))
        except BadImport:
            self._leave(work)
            raise
        loaded = Loaded(read=edges.read(), left=edges.count(), rejected=rejected, ignored=ignored.keys())
        with progress("writing", edges.left(), quiet=self.quiet, counted=self.freight.left) as advance:
            work.write(advance)
        waiting = IndexerBacklog(ports.log, self.freight.stream)
        with progress("counting in", waiting.count, quiet=self.quiet) as advance:
            index(ports, settings, waiting, patience, advance)
        edges.forget()
        return loaded

    def _begin(self, work: Import[S], edges: SpilledEdges) -> None:
        how = f"{self.form} {self.how} {self.rejects}"
        if self.checkpoint.goes_on(how):
            return
        if self.rejects and self.rejects.exists() and self.rejects.stat().st_size:
            raise BadImport(f"{self.rejects} is there already; rows that can't be taken go to a new file.")
        self._leave(work)
        edges.forget()
        self.told.unlink(missing_ok=True)
        self.checkpoint.begin(how)

    def _leave(self, work: Import[S]) -> None:
        """What was read of a file that isn't gone on with. Rows that stand are to be in the bitmaps."""
        if self.freight.as_read:
            # First: whoever went on reading would have keys that lie before what is taken by then.
            self.checkpoint.leave()
            work.write()

    def _read(self, work: Import[S], edges: SpilledEdges, ignore: Ignore) -> int:
        with (
            closing(Rejects(self.told)) as reject,
            opened(self._file(), self.form, self.freight.layout, reject, self.at_once, ignore=ignore) as source,
            progress("reading", source.size, quiet=self.quiet, counted="rows") as advance,
        ):
            before = 0

            def read(rows: int) -> None:
                nonlocal before
                place = source.place(edges.read())
                advance(place - before, rows)
                before = place

            work.read(self._unchanged(source, edges.read(), reject), read)
            return reject.count

    def _unchanged(self, source: Source[S], read: int, reject: Rejects) -> Iterator[S]:
        seen = self.checkpoint.seen()
        for rows in source.behind(read):
            self.checkpoint.require_same(seen)
            reject.keep()
            yield rows
        self.checkpoint.require_same(seen)

    def _file(self) -> Path | BinaryIO:
        return sys.stdin.buffer if self.checkpoint.stdin else self.checkpoint.file
