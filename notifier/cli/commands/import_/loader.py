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
from notifier.cli.opened_stores import owner_name
from notifier.cli.output import progress
from notifier.cli.running_service import OutageRetry
from notifier.config import Settings
from notifier.consumer_loop import StreamProcessor, build_stream_processor
from notifier.domain.errors import BadImport, DiskFull, UnusableEnvironment
from notifier.domain.users.import_rows import AccountRow, PreferenceRow
from notifier.flow.imports.follower_import import FollowerImport
from notifier.flow.imports.import_runner_accounts_preferences import AccountImport, Import, ImportKind, PreferenceImport
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports
from notifier.ports.event_log_and_dead_letters import EventLog, Logged
from notifier.ports.import_batches_and_key_sort import FollowEdges, ImportBatch, NumericIdFollowEdges, SourceBatch
from notifier.profiles.import_sources import (
    ACCOUNTS,
    FOLLOWS,
    PREFERENCES,
    VIPS,
    Layout,
    ReportIgnored,
    Source,
    SpilledEdges,
    open_source,
)
from notifier.wiring.shared_parts import build_system

# Durable state of an import.

STDIN = "-"
"""File argument that means the standard input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCheckpoint:
    """Records which version of a file is being imported, so that an interrupted import can resume."""

    file: Path
    folder: Path
    """Folder with the state of the import. Its name is a digest of the dataset's name and the file's path."""

    @classmethod
    def of(cls, data: Path, dataset: str, file: Path) -> "ImportCheckpoint":
        name = STDIN if str(file) == STDIN else str(file.resolve())
        digest = blake2b(f"{dataset} {name}".encode(), digest_size=8)
        return cls(file=file, folder=data / "imports" / digest.hexdigest())

    @property
    def is_stdin(self) -> bool:
        return str(self.file) == STDIN

    @property
    def is_stream(self) -> bool:
        """Whether the file is the standard input or a pipe, which can't be read twice."""
        return self.is_stdin or not self.file.is_file()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of this import while the block lasts. Raises UnusableEnvironment if it is taken."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnusableEnvironment(f"Another process is importing {self.file}.") from None
            yield

    def can_resume(self, options: str) -> bool:
        """Return whether an earlier run began with the file as it is now, and with the same options."""
        return (
            not self.is_stream
            and self._begun_file.exists()
            and self._begun_file.read_text() == self._begun_text(options)
        )

    def begin(self, options: str) -> None:
        """Record the version of the file that is imported. Call it after removing the state of an earlier import."""
        self._begun_file.write_text(self._begun_text(options))

    def discard(self) -> None:
        """Make the next import start from the beginning, even if the file is unchanged."""
        self._begun_file.unlink(missing_ok=True)

    def file_version(self) -> str:
        """Return the current version of the file: its size and modification time."""
        if self.is_stream:
            return STDIN
        status = self.file.stat()
        return f"{status.st_size} bytes of {status.st_mtime_ns}"

    def require_version(self, version: str) -> None:
        """Raise BadImport if the file has changed."""
        if self.file_version() != version:
            raise BadImport(
                f"{self.file.name} changed while it was read; repeat the command to start from the beginning."
            )

    @property
    def _begun_file(self) -> Path:
        return self.folder / "begun"

    def _begun_text(self, options: str) -> str:
        return f"{self.file_version()}, {options}\n"


@dataclass(slots=True)
class Rejects:
    """File of rejected rows, each written once.

    A resumed import may read rejected rows again. Rows are read in order, so a rejected row is new only if its line
    number is above the last one in the file.
    """

    path: Path
    count: int = 0
    _last_line: int = 0
    _synced_count: int = field(init=False)
    _file: BinaryIO = field(init=False)

    def __post_init__(self) -> None:
        """Read the rows that were rejected before. Raises BadImport if the file can't be written."""
        try:
            self._file = self.path.open("a+b")
        except OSError as error:
            raise BadImport(f"Can't write rejected rows to {self.path}: {error.strerror or error}.") from error
        self._file.seek(0)
        valid_bytes = 0
        for line in self._file:
            try:
                self._last_line = json.loads(line)["line"]
            except ValueError:  # cut off by a full disk or a power cut: its row and later ones are read again
                self._file.truncate(valid_bytes)
                break
            self.count, valid_bytes = self.count + 1, valid_bytes + len(line)
        self._synced_count = self.count

    def __call__(self, line: int, reason: str) -> None:
        """Write and flush one rejected row, so that it survives a crash of this process. Raises DiskFull."""
        if line > self._last_line:
            try:
                self._file.write(json.dumps({"line": line, "reason": reason}).encode() + b"\n")
                self._file.flush()
            except OSError as error:
                raise DiskFull(f"{self.path}: {error.strerror}.") from error
            self.count += 1

    def sync(self) -> None:
        """Sync the file before the import's position is stored.

        Rows before that position are not read again, so their rejections must survive a power cut.
        """
        if self._synced_count < self.count and self.path.is_file():
            os.fsync(self._file.fileno())
        self._synced_count = self.count

    def close(self) -> None:
        with suppress(OSError):  # the write of a buffered line has already failed
            self._file.close()


# Indexing: the command helps to update the bitmaps until its own changes are processed.

STEP_WAIT = timedelta(seconds=0.25)
"""Longest wait for records in one step of the indexer."""


@dataclass(slots=True)
class IndexerBacklog:
    """Records of a stream that its consumers had not processed when this object was created."""

    log: EventLog
    stream: str
    count: int = 0
    _last_offsets: dict[str, int] = field(default_factory=dict)
    """Offset of the last of these records, by partition."""

    def __post_init__(self) -> None:
        for record in self._records():
            self._last_offsets[record.partition] = record.offset
            self.count += 1

    def has_unprocessed(self) -> bool:
        """Return whether any of these records is still unprocessed. Later records don't count."""
        return any(map(self._is_from_backlog, self._records()))

    def _records(self) -> Iterable[Logged]:
        return self.log.read_uncommitted(self.stream, topics.GROUPS[self.stream], sys.maxsize)

    def _is_from_backlog(self, record: Logged) -> bool:
        return record.offset <= self._last_offsets.get(record.partition, -1)


def run_indexer(
    ports: Ports,
    settings: Settings,
    backlog: IndexerBacklog,
    retry: OutageRetry,
    advance: Callable[[int], object],
) -> None:
    """Consume the stream until the backlog is processed. Other consumers may process parts of it."""
    system = build_system(
        ports=ports, settings=settings, metrics=Metrics(), owner=owner_name("import", ports.nonces.new())
    )
    indexer = build_stream_processor(system, backlog.stream)
    with closing(indexer.consumer):
        while backlog.has_unprocessed():
            retry(lambda: _step(indexer, advance))


def _step(indexer: StreamProcessor, advance: Callable[[int], object]) -> None:
    advance(indexer.step(STEP_WAIT))


S = TypeVar("S", bound=SourceBatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportDataset(Generic[S]):
    """A dataset that can be imported."""

    name: str
    """Name of the subcommand."""
    layout: Layout[S]
    make_import: Callable[[Ports], ImportKind[S]]
    remaining_unit: str
    """Unit of the work that remains after reading: follows, or shards whose bitmaps must be rebuilt."""
    stream: str
    """Stream whose consumers update the bitmaps."""
    writes_as_read: bool
    """Whether rows are written while the file is read. Otherwise they are written after the whole file was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCounts:
    """Counts of a finished import."""

    row_count: int
    """Rows that were read, including rejected ones."""
    spilled_count: int
    """Keys that were stored while reading, and processed afterwards: follows, or bitmaps to rebuild."""
    rejected_count: int
    ignored_columns: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRun(Generic[S]):
    """One run of `notifier import`."""

    dataset: ImportDataset[S]
    checkpoint: ImportCheckpoint
    """Its lock must be held."""
    form: str
    row_options: str
    """Options that change the meaning of a row. A run with other options starts again."""
    rejects: Path | None
    rows_per_batch: int
    quiet: bool

    @property
    def rejects_file(self) -> Path:
        return self.rejects or self.checkpoint.folder / "rejects.ndjson"

    def __call__(self, ports: Ports, settings: Settings) -> ImportCounts:
        spilled_keys, retry = SpilledEdges(self.checkpoint.folder), OutageRetry()
        importer = Import(kind=self.dataset.make_import(ports), key_sort=spilled_keys, retry=retry)
        ignored_columns = dict[str, None]()
        self._begin(importer, spilled_keys)
        try:
            rejected_count = self._read_rows(
                importer, spilled_keys, lambda names: ignored_columns.update(dict.fromkeys(names))
            )
        except BadImport:
            self._finish_abandoned(importer)
            raise
        counts = ImportCounts(
            row_count=spilled_keys.rows_read(),
            spilled_count=spilled_keys.count(),
            rejected_count=rejected_count,
            ignored_columns=ignored_columns.keys(),
        )
        with progress(
            "writing", spilled_keys.remaining_count(), quiet=self.quiet, unit=self.dataset.remaining_unit
        ) as advance:
            importer.write(advance)
        backlog = IndexerBacklog(ports.log, self.dataset.stream)
        with progress("indexing", backlog.count, quiet=self.quiet) as advance:
            run_indexer(ports, settings, backlog, retry, advance)
        spilled_keys.clear()
        return counts

    def _begin(self, importer: Import[S], spilled_keys: SpilledEdges) -> None:
        options = f"{self.form} {self.row_options} {self.rejects}"
        if self.checkpoint.can_resume(options):
            return
        if self.rejects and self.rejects.exists() and self.rejects.stat().st_size:
            raise BadImport(f"{self.rejects} already exists; name a new file for rejected rows.")
        self._finish_abandoned(importer)
        spilled_keys.clear()
        self.rejects_file.unlink(missing_ok=True)
        self.checkpoint.begin(options)

    def _finish_abandoned(self, importer: Import[S]) -> None:
        """Update the bitmaps with the rows that an abandoned import has written.

        The import is an earlier one that can't be resumed, or the current one after a BadImport.
        """
        if self.dataset.writes_as_read:
            # Discard the checkpoint first. An import that resumed after the write could read keys that sort before the
            # written ones, and would skip them.
            self.checkpoint.discard()
            importer.write()

    def _read_rows(self, importer: Import[S], spilled_keys: SpilledEdges, report_ignored: ReportIgnored) -> int:
        with (
            closing(Rejects(self.rejects_file)) as rejected_rows,
            open_source(
                self._source(),
                self.form,
                self.dataset.layout,
                rejected_rows,
                self.rows_per_batch,
                report_ignored=report_ignored,
            ) as source,
            progress("reading", source.size, quiet=self.quiet, unit="rows") as advance,
        ):
            previous_position = 0

            def report_progress(rows: int) -> None:
                nonlocal previous_position
                position = source.position_of(spilled_keys.rows_read())
                advance(position - previous_position, rows)
                previous_position = position

            importer.read(self._unchanged_batches(source, spilled_keys.rows_read(), rejected_rows), report_progress)
            return rejected_rows.count

    def _unchanged_batches(self, source: Source[S], rows_read: int, rejected_rows: Rejects) -> Iterator[S]:
        """Yield the remaining rows. Raises BadImport if the file changes meanwhile."""
        version = self.checkpoint.file_version()
        for batch in source.rows_after(rows_read):
            self.checkpoint.require_version(version)
            rejected_rows.sync()
            yield batch
        self.checkpoint.require_version(version)

    def _source(self) -> Path | BinaryIO:
        return sys.stdin.buffer if self.checkpoint.is_stdin else self.checkpoint.file


# Datasets.


def follow_dataset(since: datetime) -> ImportDataset[FollowEdges | NumericIdFollowEdges]:
    return ImportDataset(
        name="followers",
        layout=FOLLOWS,
        make_import=lambda p: FollowerImport(directory=p.directory, follows=p.follows, log=p.log, visible_from=since),
        remaining_unit="follows",
        stream=topics.FOLLOWS,
        writes_as_read=False,
    )


def account_dataset(*, ranges: bool) -> ImportDataset[ImportBatch[AccountRow]]:
    return ImportDataset(
        name="users",
        layout=ACCOUNTS,
        make_import=lambda p: AccountImport(
            directory=p.directory, flags=p.account_flags, log=p.log, enrols_ranges=ranges
        ),
        remaining_unit="shards",
        stream=topics.USERS,
        writes_as_read=True,
    )


def vip_dataset() -> ImportDataset[ImportBatch[AccountRow]]:
    return ImportDataset(
        name="vip",
        layout=VIPS,
        make_import=lambda p: AccountImport(
            directory=p.directory, flags=p.account_flags, log=p.log, enrols_ranges=False
        ),
        remaining_unit="shards",
        stream=topics.USERS,
        writes_as_read=True,
    )


def preference_dataset() -> ImportDataset[ImportBatch[PreferenceRow]]:
    return ImportDataset(
        name="preferences",
        layout=PREFERENCES,
        make_import=lambda p: PreferenceImport(
            directory=p.directory,
            subject_preferences=p.subject_preferences,
            account_preferences=p.account_preferences,
            log=p.log,
            clock=p.clock,
        ),
        remaining_unit="shards",
        stream=topics.FOLLOWS,
        writes_as_read=True,
    )
