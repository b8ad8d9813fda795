"""A file on its way into the store: read, written as rows, and counted in by whoever keeps the bitmaps."""

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from notifier.cli.commands.import_.checkpoint import Checkpoint, Rejects
from notifier.cli.commands.import_.indexer_process import Waiting, index
from notifier.cli.http import Patience
from notifier.cli.output import progress
from notifier.config import Settings
from notifier.domain.errors import BadImport
from notifier.flow.imports.importer import Import, Matter
from notifier.ports.all_ports import Ports
from notifier.ports.imports import Some
from notifier.profiles.import_sources import Ignore, Layout, Source, SpilledEdges, opened

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
class Loading(Generic[S]):
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
        edges, patience = SpilledEdges(self.checkpoint.folder), Patience()
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
        waiting = Waiting(ports.log, self.freight.stream)
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
