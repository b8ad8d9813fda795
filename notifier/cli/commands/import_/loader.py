"""Import of one file: writes its rows and runs the indexer until bitmaps are current."""

import fcntl
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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
from notifier.domain.users.import_rows import AccountRow, PreferenceRow
from notifier.flow.imports.followers import Followers
from notifier.flow.imports.importer import AccountImport, Import, Matter, PreferenceImport
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports
from notifier.ports.event_log import EventLog, Logged
from notifier.ports.imports import ImportBatch, NumberedFollows, Rows, Some
from notifier.profiles.import_sources import (
    ACCOUNTS,
    EDGES,
    PREFERENCES,
    VIPS,
    Ignore,
    Layout,
    Source,
    SpilledEdges,
    opened,
)
from notifier.wiring.system import build_system

# Durable state of an import: which file it reads, a lock, and the rejected rows.

STDIN = "-"
"""File argument that means the standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Records which version of a file is being imported, so that an interrupted import can resume."""

    file: Path
    folder: Path
    """State of the import. The dataset and the path of the file determine it, not the content."""

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
        """Whether the file is the standard input or a pipe, which can't be read twice."""
        return self.stdin or not self.file.is_file()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of this import while the block lasts. Raises Environment if another process holds it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Environment(f"Another process is importing {self.file} right now.") from None
            yield

    def goes_on(self, how: str) -> bool:
        """Return whether an earlier run read the file as it is now, with the same options."""
        return not self.passing and self._begun.exists() and self._begun.read_text() == self._words(how)

    def begin(self, how: str) -> None:
        """Mark the import as begun. Call it after removing the state of an earlier import.

        An import that is interrupted before this call starts again.
        """
        self._begun.write_text(self._words(how))

    def leave(self) -> None:
        """Make the next import start from the beginning, even if the file is unchanged."""
        self._begun.unlink(missing_ok=True)

    def seen(self) -> str:
        """Return the current version of the file: its size and modification time."""
        if self.passing:
            return STDIN
        now = self.file.stat()
        return f"{now.st_size} bytes of {now.st_mtime_ns}"

    def require_same(self, seen: str) -> None:
        """Raise BadImport if the file has changed: the remaining rows may be different ones."""
        if self.seen() != seen:
            raise BadImport(f"{self.file.name} changed while it was read; the same command begins anew.")

    @property
    def _begun(self) -> Path:
        return self.folder / "begun"

    def _words(self, how: str) -> str:
        return f"{self.seen()}, {how}\n"


@dataclass(slots=True)
class Rejects:
    """File of rejected rows.

    Each row is written once, even if the import is interrupted, because rows are read in order.
    """

    path: Path
    count: int = 0
    _last: int = 0
    _kept: int = field(init=False)
    _file: BinaryIO = field(init=False)

    def __post_init__(self) -> None:
        """Read the rows that were rejected before. Raises BadImport if the file can't be written."""
        try:
            self._file = self.path.open("a+b")
        except OSError as error:
            raise BadImport(f"{self.path} is for the rows that can't be taken: {error.strerror or error}.") from error
        self._file.seek(0)
        valid_bytes = 0
        for line in self._file:
            try:
                self._last = json.loads(line)["line"]
            except ValueError:  # torn by a full disk or a power cut: its row and those after it are read again
                self._file.truncate(valid_bytes)
                break
            self.count, valid_bytes = self.count + 1, valid_bytes + len(line)
        self._kept = self.count

    def __call__(self, line: int, why: str) -> None:
        """Write one rejected row. Raises Full. Each line is flushed, so it survives a crash of this process."""
        if line > self._last:
            try:
                self._file.write(json.dumps({"line": line, "reason": why}).encode() + b"\n")
                self._file.flush()
            except OSError as error:
                raise Full(f"{self.path}: {error.strerror}.") from error
            self.count += 1

    def keep(self) -> None:
        """Sync the file, so that it survives a power cut. Rows before a checkpoint are not read again."""
        if self._kept < self.count and self.path.is_file():
            os.fsync(self._file.fileno())
        self._kept = self.count

    def close(self) -> None:
        with suppress(OSError):  # the write of a buffered line has already failed
            self._file.close()


# Indexing: the command itself helps to update the bitmaps until its own changes are processed.

TURN = timedelta(seconds=0.25)
"""Longest wait for records in one step of the indexer."""


@dataclass(slots=True)
class IndexerBacklog:
    """Records of the stream that its consumers had not processed when this object was created."""

    log: EventLog
    stream: str
    count: int = 0
    _ends: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for record in self._records():
            self._ends[record.partition] = record.offset
            self.count += 1

    def left(self) -> bool:
        """Return whether any of these records is still unprocessed. Later records don't count."""
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
    """Consume the stream until the backlog is processed. Other consumers may process parts of it."""
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
    """A dataset that can be imported."""

    name: str
    """Name of the subcommand."""
    layout: Layout[S]
    matter: Callable[[Ports], Matter[S]]
    """Creates the import that writes the rows."""
    left: str
    """Unit of the work that remains after reading: follows or shards."""
    stream: str
    """Stream whose consumers update the bitmaps."""
    as_read: bool
    """Whether rows are written as they are read. Otherwise nothing is written before the whole file was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Counts of a finished import."""

    read: int
    """Rows, including rejected ones."""
    left: int
    """Items that were written after reading. For followers: the follows."""
    rejected: int
    ignored: Collection[str]
    """Columns that were ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRun(Generic[S]):
    """One run of `notifier import`."""

    freight: Freight[S]
    checkpoint: Checkpoint
    """Its lock must be held."""
    form: str
    how: str
    """Options that change the meaning of a row. A run with other options starts again."""
    rejects: Path | None
    at_once: int
    quiet: bool

    @property
    def told(self) -> Path:
        """File of the rejected rows."""
        return self.rejects or self.checkpoint.folder / "rejects.ndjson"

    def __call__(self, ports: Ports, settings: Settings) -> Loaded:
        """Import the file.

        Raises BadImport, also if a file of rejected rows would be overwritten, and Environment if an optional package
        is missing.
        """
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
        """Finish the abandoned import of another version of the file.

        Rows that are in the store must also be in the bitmaps.
        """
        if self.freight.as_read:
            # Leave first: a resumed import could add keys that sort before those that are already written.
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


# Datasets: the columns of each kind of file, and the import that writes its rows.


def follows(since: datetime) -> Freight[Rows | NumberedFollows]:
    return Freight(
        name="followers",
        layout=EDGES,
        matter=lambda p: Followers(directory=p.directory, follows=p.follows, log=p.log, since=since),
        left="follows",
        stream=topics.FOLLOWS,
        as_read=False,
    )


def accounts(*, ranges: bool) -> Freight[ImportBatch[AccountRow]]:
    return Freight(
        name="users",
        layout=ACCOUNTS,
        matter=lambda p: AccountImport(directory=p.directory, flags=p.flags, log=p.log, ranges=ranges),
        left="shards",
        stream=topics.USERS,
        as_read=True,
    )


def vips() -> Freight[ImportBatch[AccountRow]]:
    return Freight(
        name="vip",
        layout=VIPS,
        matter=lambda p: AccountImport(directory=p.directory, flags=p.flags, log=p.log, ranges=False),
        left="shards",
        stream=topics.USERS,
        as_read=True,
    )


def wishes() -> Freight[ImportBatch[PreferenceRow]]:
    return Freight(
        name="preferences",
        layout=PREFERENCES,
        matter=lambda p: PreferenceImport(
            directory=p.directory, wants=p.wants, overalls=p.overalls, log=p.log, clock=p.clock
        ),
        left="shards",
        stream=topics.FOLLOWS,
        as_read=True,
    )
