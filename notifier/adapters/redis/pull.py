"""The pull index in Redis, as its writers know it: announcements, comparisons, and the rebuild after a loss."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Protocol

import redis

from notifier.adapters.redis.client import Client
from notifier.adapters.redis.layout import AS_OF, EPOCH, KEPT, PARTS, SINCE, key, milliseconds, part_of
from notifier.adapters.redis.scripts import Argument, Script
from notifier.domain.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.domain.subject import BurstKey, Subject
from notifier.ports.clock import Nonces

MOST_OWED = 10_000
"""Bursts remembered while Redis is away; with more, the whole index is declared lost instead."""

AT_ONCE = 500
"""Subjects in one call: a script holds everybody else up."""

MOST_LISTS = 20_000
"""In a part. With the usual few bursts each, all parts together stay under 100 MB of a server's 256; with more subjects
the index reaches less far back."""

SWEPT_EVERY = 60
"""Comparisons between two sweeps of a part: with one a second all parts are swept within about half an hour."""

LEAST_SPAN = timedelta(minutes=1)
"""However full it is, the index reaches back so far."""

BEHIND = 0.5
"""Milliseconds behind a page's oldest burst. The fraction marks the claims that a rebuild hasn't come to the end of."""

Run = list[Burst]
"""Bursts of one subject whose seqs have no gap, ascending."""

_PROOF = (EPOCH.encode(), SINCE.encode(), AS_OF.encode())


class Command(Protocol):
    def __call__(self, pipe: "redis.client.Pipeline", part: int, /) -> object: ...


class RedisPullIndex:
    """Thread-safe. Who remembers what Redis missed? The store: every burst was written there before it was announced.

    A failed announcement costs the index its claims in one of two ways. A server that answers but takes no more (full)
    still deletes: `as_of` goes at once. One that hangs, or can't be reached, can't be told, so `as_of` runs out by
    itself (FRESH_FOR). Either way the next comparison gives it back, and whoever makes it, this process or another
    after our death, has first announced what the store holds.

    What couldn't be announced is kept here as well, and announced first at the next call of any kind. That only saves
    time: it spares the lists a gap, and a gap ends the generation.
    """

    def __init__(self, client: Client, nonces: Nonces) -> None:
        self._client = client
        self._nonces = nonces
        self._join = Script.named("join")
        self._declare = Script.named("declare")
        self._settle = Script.named("settle")
        self._epochs: dict[int, bytes] = {}
        self._owed: dict[BurstKey, Burst] = {}
        self._too_many_owed = False
        self._comparisons = 0
        self._lock = Lock()

    def announce(self, bursts: Sequence[Burst]) -> None:
        with self._lock:
            self._pay(bursts)

    def generation(self) -> str | None:
        with self._lock:
            self._pay()
            with self._client.answered():
                self._plant()
                found = self._each_part(lambda pipe, part: pipe.hmget(key(part), [EPOCH, SINCE]))
            self._epochs = {part: epoch or b"" for part, (epoch, _) in enumerate(found)}
        if any(epoch is None or since is None for epoch, since in found):
            return None
        return "+".join(sorted({epoch.decode() for epoch, _ in found}))

    def rebuilt(self, pages: Iterable[Sequence[Burst]], since: datetime, as_of: datetime) -> None:
        epochs = self._planted()
        # Each step looks at the epoch itself: lists prove something from the first one on.
        for page in pages:
            with self._lock, self._client.answered():
                self._send(_newest_runs(page), epochs)
        self._say(epochs, milliseconds(since), as_of)
        for part in range(PARTS):
            self._settled(part)

    def compared(self, since: datetime, as_of: datetime) -> None:
        self._say(self._planted(), "", as_of)
        self._comparisons += 1
        sweeps, left = divmod(self._comparisons, SWEPT_EVERY)
        if left == 0:
            self._sweep(sweeps % PARTS, since, as_of)

    def _planted(self) -> Mapping[int, bytes]:
        if not self._epochs:
            self.generation()
        return self._epochs

    def _pay(self, bursts: Sequence[Burst] = ()) -> None:
        # Remembered before they are sent: whatever goes wrong from here on, they aren't forgotten.
        self._owed.update((burst.key, burst) for burst in bursts)
        self._too_many_owed |= len(self._owed) > MOST_OWED
        if self._too_many_owed:
            self._owed.clear()
        try:
            with self._client.answered():
                if self._too_many_owed:
                    self._each_part(lambda pipe, part: pipe.delete(key(part)))
                    self._too_many_owed = False
                self._send((run, "") for run in _runs(self._owed.values()))
        except CacheUnavailable:
            self._disclaim()
            raise
        self._owed.clear()

    def _disclaim(self) -> None:
        """A full server still lets itself be told that it lacks some; on one that hangs the claims run out."""
        with suppress(CacheUnavailable), self._client.answered():
            self._each_part(lambda pipe, part: pipe.hdel(key(part), AS_OF))

    def _say(self, epochs: Mapping[int, bytes], since: int | str, as_of: datetime) -> None:
        calls = [(key(part), [epochs[part], since, milliseconds(as_of)]) for part in range(PARTS)]
        with self._lock:
            # What we owe the store held, too, or holds by now.
            self._pay()
            with self._client.answered():
                _unbroken(self._declare.each(self._client, calls))

    def _plant(self) -> None:
        nonce = self._nonces.new()
        self._each_part(lambda pipe, part: pipe.hsetnx(key(part), EPOCH, nonce))

    def _send(self, runs: Iterable[tuple[Run, float | str]], epochs: Mapping[int, bytes] | None = None) -> None:
        """Each run with the moment since when it is all there is; '' for announcements, which need no epoch."""
        calls: dict[int, list[Argument]] = defaultdict(list)
        for count, (run, since) in enumerate(runs, start=1):
            arguments = calls[part_of(run[0].key.subject)]
            arguments += [str(run[0].key.subject), since, len(run)]
            for burst in run:
                arguments += [burst.key.seq, milliseconds(burst.opened_at)]
            if count % AT_ONCE == 0:
                self._join_all(calls, epochs or {})
                calls.clear()
        self._join_all(calls, epochs or {})

    def _join_all(self, calls: Mapping[int, Sequence[Argument]], epochs: Mapping[int, bytes]) -> None:
        _unbroken(
            self._join.each(
                self._client,
                [(key(part), (KEPT, epochs.get(part, b""), *arguments)) for part, arguments in calls.items()],
            )
        )

    def _sweep(self, part: int, since: datetime, as_of: datetime) -> None:
        """Forgets what is older; in a part that is still too long, the older half of the time, as often as it takes."""
        span, now = as_of - since, milliseconds(as_of)
        while True:
            with self._lock, self._client.answered():
                self._declare(self._client, key(part), self._epochs[part], milliseconds(as_of - span), now)
            self._settled(part)
            with self._lock, self._client.answered():
                lists = self._client.hlen(key(part))
            if lists <= MOST_LISTS or span <= LEAST_SPAN:
                return
            span /= 2

    def _settled(self, part: int) -> None:
        cursor = -1
        while cursor != 0:
            with self._lock, self._client.answered():
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


def _newest_runs(page: Sequence[Burst]) -> Iterator[tuple[Run, float]]:
    """A page is complete since behind its oldest, which may share its moment with the next page's newest.

    Where a seq is missing its burst isn't readable yet: what is newer is all there is since its own opening.
    """
    newest: dict[Subject, tuple[Run, float]] = {}
    for run in _runs(page):
        subject = run[0].key.subject
        claim = 0.0 if run[0].key.seq == 1 else milliseconds(page[-1].opened_at) + BEHIND
        newest[subject] = (run, milliseconds(run[0].opened_at) if subject in newest else claim)
    return iter(newest.values())


def _unbroken(answers: Iterable[int]) -> None:
    if not all(answers):
        raise CacheUnavailable("The index was emptied, or found to have a gap, while it was rebuilt.")


def _next(run: Run) -> BurstKey:
    return BurstKey(run[0].key.subject, run[-1].key.seq + 1)
