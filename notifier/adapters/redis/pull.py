"""The pull index in Redis, as its writers know it: announcements, and the rebuild after a loss."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, Protocol

import redis

from notifier.adapters.redis.client import answered
from notifier.adapters.redis.layout import EPOCH, FOR_EVER, KEPT, PARTS, SINCE, key, milliseconds, part_of
from notifier.adapters.redis.scripts import Argument, Script
from notifier.domain.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.subject import BurstKey, Subject
from notifier.ports.clock import Nonces

MOST_OWED = 10_000
"""Bursts remembered while Redis is away; with more, the whole index is declared lost instead."""

AT_ONCE = 500
"""Subjects in one call: a script holds everybody else up."""

Run = list[Burst]
"""Bursts of one subject whose seqs have no gap, ascending."""

_PROOF = (EPOCH.encode(), SINCE.encode())


class Command(Protocol):
    def __call__(self, pipe: "redis.client.Pipeline", part: int, /) -> object: ...


class RedisPullIndex:
    """Thread-safe. What couldn't be announced is remembered and announced first at the next call of any kind.

    So an announcement is lost only with its process; the gap is noticed at the subject's next burst, and ends the
    generation.
    """

    def __init__(self, client: redis.Redis, nonces: Nonces) -> None:
        self._client = client
        self._nonces = nonces
        self._join = Script.named("join")
        self._declare = Script.named("declare")
        self._settle = Script.named("settle")
        self._epochs: dict[int, bytes] = {}
        self._owed: dict[BurstKey, Burst] = {}
        self._too_many_owed = False
        self._lock = Lock()

    def announce(self, bursts: Sequence[Burst]) -> None:
        with self._lock:
            self._pay(bursts)

    def generation(self) -> str | None:
        with self._lock, answered():
            self._pay()
            self._plant()
            found = self._each_part(lambda pipe, part: pipe.hmget(key(part), [EPOCH, SINCE]))
            self._epochs = {part: epoch or b"" for part, (epoch, _) in enumerate(found)}
        if any(epoch is None or since is None for epoch, since in found):
            return None
        return "+".join(sorted({epoch.decode() for epoch, _ in found}))

    def rebuilt(self, bursts: Sequence[Burst], since: datetime) -> None:
        if not self._epochs:
            self.generation()
        with self._lock, answered():
            # Each step looks at the epoch itself: lists prove something from the first one on.
            self._send(_newest_runs(bursts, since))
            declared = self._declare.each(
                self._client, [(key(part), [self._epochs[part], milliseconds(since)]) for part in range(PARTS)]
            )
            _unbroken(declared)
            self._settle_all()

    def _pay(self, bursts: Sequence[Burst] = ()) -> None:
        # Remembered before they are sent: whatever goes wrong from here on, they aren't forgotten.
        self._owed.update((burst.key, burst) for burst in bursts)
        self._too_many_owed |= len(self._owed) > MOST_OWED
        if self._too_many_owed:
            self._owed.clear()
        with answered():
            if self._too_many_owed:
                self._each_part(lambda pipe, part: pipe.delete(key(part)))
                self._too_many_owed = False
            self._send((run, None) for run in _runs(self._owed.values()))
        self._owed.clear()

    def _plant(self) -> None:
        nonce = self._nonces.new()
        self._each_part(lambda pipe, part: pipe.hsetnx(key(part), EPOCH, nonce))

    def _send(self, runs: Iterable[tuple[Run, datetime | None]]) -> None:
        """Each run with the moment since when it is all there is; None for announcements."""
        calls: dict[int, list[Argument]] = defaultdict(list)
        for count, (run, since) in enumerate(runs, start=1):
            arguments = calls[part_of(run[0].key.subject)]
            arguments += [str(run[0].key.subject), "" if since is None else milliseconds(since), len(run)]
            for burst in run:
                arguments += [burst.key.seq, milliseconds(burst.opened_at)]
            if count % AT_ONCE == 0:
                self._join_all(calls)
                calls.clear()
        self._join_all(calls)

    def _join_all(self, calls: Mapping[int, Sequence[Argument]]) -> None:
        _unbroken(
            self._join.each(
                self._client,
                [(key(part), (KEPT, self._epochs.get(part, b""), *arguments)) for part, arguments in calls.items()],
            )
        )

    def _settle_all(self) -> None:
        for part in range(PARTS):
            cursor = -1
            while cursor != 0:
                cursor, page = self._client.hscan(key(part), max(cursor, 0), count=AT_ONCE)
                self._settle(self._client, key(part), *(name for name in page if name not in _PROOF))

    def _each_part(self, command: Command) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipe:
            for part in range(PARTS):
                command(pipe, part)
            return list(pipe.execute())


def _runs(bursts: Iterable[Burst]) -> Iterator[Run]:
    """By subject and ascending, cut wherever a seq is missing."""
    run: Run = []
    for burst in sorted(bursts, key=lambda burst: burst.key):
        if run and burst.key != _next(run):
            yield run
            run = []
        run.append(burst)
    if run:
        yield run


def _newest_runs(bursts: Iterable[Burst], since: datetime) -> Iterator[tuple[Run, datetime]]:
    """Where a seq is missing its burst isn't readable yet: what is newer is all there is since its own opening."""
    newest: dict[Subject, tuple[Run, datetime]] = {}
    for run in _runs(bursts):
        subject = run[0].key.subject
        from_the_first = FOR_EVER if run[0].key.seq == 1 else since
        newest[subject] = (run, run[0].opened_at if subject in newest else from_the_first)
    return iter(newest.values())


def _unbroken(answers: Iterable[int]) -> None:
    if not all(answers):
        raise CacheUnavailable("The index was emptied, or found to have a gap, while it was rebuilt.")


def _next(run: Run) -> BurstKey:
    return BurstKey(run[0].key.subject, run[-1].key.seq + 1)
