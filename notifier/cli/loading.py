"""A file of followers on its way into the store: read into runs, written as rows, and counted in by the indexer."""

import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from notifier.cli.checkpoint import Checkpoint, Rejects
from notifier.cli.indexing import Waiting, index
from notifier.cli.patience import Patience
from notifier.cli.progress import progress
from notifier.config import Settings
from notifier.domain.errors import BadImport
from notifier.flow.importing import Import
from notifier.ports.chosen import Ports
from notifier.ports.edges import Numbers, Rows
from notifier.profiles.imports import Source, SpilledEdges, opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    follows: int
    rejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    checkpoint: Checkpoint
    """Held."""
    form: str
    since: datetime
    rejects: Path | None
    at_once: int
    quiet: bool

    @property
    def told(self) -> Path:
        return self.rejects or self.checkpoint.folder / "rejects.ndjson"

    def __call__(self, ports: Ports, settings: Settings) -> Loaded:
        """Raises BadImport, also for a file of rejects that would be overwritten, and Environment without the extra."""
        edges, patience = SpilledEdges(self.checkpoint.folder), Patience()
        self._begin(edges)
        work = Import(
            directory=ports.directory,
            follows=ports.follows,
            log=ports.log,
            edges=edges,
            since=self.since,
            patience=patience,
        )
        rejected = self._read(work, edges)
        with progress("writing", edges.left(), quiet=self.quiet, counted="follows") as advance:
            work.write(advance)
        follows = edges.count()
        waiting = Waiting(ports.log)
        with progress("counting in", waiting.count, quiet=self.quiet) as advance:
            index(ports, settings, waiting, patience, advance)
        edges.forget()
        return Loaded(follows=follows, rejected=rejected)

    def _begin(self, edges: SpilledEdges) -> None:
        how = f"{self.form} {self.since.isoformat()} {self.rejects}"
        if self.checkpoint.goes_on(how):
            return
        if self.rejects and self.rejects.exists() and self.rejects.stat().st_size:
            raise BadImport(f"{self.rejects} is there already; rows that can't be taken go to a new file.")
        edges.forget()
        self.told.unlink(missing_ok=True)
        self.checkpoint.begin(how)

    def _read(self, work: Import, edges: SpilledEdges) -> int:
        with closing(Rejects(self.told)) as reject, opened(self._file(), self.form, reject, self.at_once) as source:
            with progress("reading", source.size, quiet=self.quiet, counted="rows") as advance:
                before = 0

                def read(rows: int) -> None:
                    nonlocal before
                    place = source.place(edges.read())
                    advance(place - before, rows)
                    before = place

                work.read(self._unchanged(source, edges.read()), read)
            return reject.count

    def _unchanged(self, source: Source, read: int) -> Iterator[Rows | Numbers]:
        seen = self.checkpoint.seen()
        for rows in source.behind(read):
            self.checkpoint.require_same(seen)
            yield rows
        self.checkpoint.require_same(seen)

    def _file(self) -> Path | BinaryIO:
        return sys.stdin.buffer if self.checkpoint.stdin else self.checkpoint.file
