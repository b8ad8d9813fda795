"""The neighbours of a burst: those of its subject that were to ring, behind it and before it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Subject
from notifier.domain.push.catch_up import rings
from notifier.ports.bursts import Bursts

AT_FIRST = 16
"""Numbers that are looked at together, and then twice as many each time: a subject's budget has thirty fan-outs in a
day, and its purse as many. Those who are never to ring use up any number of numbers between them."""
SILENT = 65_536
"""Of these that are remembered; 20 MB."""
EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Neighbours:
    """For one thread, which asks for each of them anew, since they may be taken back, unless they never ring."""

    bursts: Bursts
    most: int = SILENT
    silent: dict[BurstKey, datetime] = field(default_factory=dict, init=False)
    """Those that never do, by their opening."""

    def newer(self, burst: Burst) -> Sequence[Burst]:
        """The newest first."""
        return list(self._along(burst.key.subject, _upwards(burst.key.seq + 1), EVER))[::-1]

    def older(self, burst: Burst, since: datetime) -> Sequence[Burst]:
        """Those that opened at `since` or later, and the newest of them first."""
        found = self._along(burst.key.subject, _downwards(burst.key.seq - 1), since)
        return [other for other in found if other.opened_at >= since]

    def _along(self, subject: Subject, runs: Iterator[range], since: datetime) -> Iterator[Burst]:
        """Up to the last one, or to one that opened before that: numbers are given in the order of openings."""
        for run in runs:
            keys = [BurstKey(subject, seq) for seq in run]
            found = self.bursts.read([key for key in keys if key not in self.silent])
            opened = found[keys[-1]].opened_at if keys[-1] in found else self.silent.get(keys[-1])
            self._remember(found.values())
            yield from (found[key] for key in keys if key in found and rings(found[key]))
            if opened is None or opened < since:
                return

    def _remember(self, bursts: Iterable[Burst]) -> None:
        if len(self.silent) > self.most:
            self.silent.clear()
        self.silent |= {burst.key: burst.opened_at for burst in bursts if not rings(burst)}


def _upwards(seq: int) -> Iterator[range]:
    size = AT_FIRST
    while True:
        yield range(seq, seq + size)
        seq, size = seq + size, size * 2


def _downwards(seq: int) -> Iterator[range]:
    size = AT_FIRST
    while seq > 0:
        yield range(seq, max(0, seq - size), -1)
        seq, size = seq - size, size * 2
