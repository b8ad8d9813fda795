"""Many rows at the speed of the node: premade messages, sent by the driver's own futures."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from threading import Condition
from time import monotonic
from typing import Any

import cassandra as vendor
from cassandra import protocol
from cassandra.cluster import NoHostAvailable, Session
from cassandra.connection import ConnectionBusy
from cassandra.pool import NoConnectionsAvailable

from notifier.adapters.cassandra.bulk.encoding import INBOX_ROW, Premade, RowBatch, Splicing, fits, stock
from notifier.adapters.cassandra.driver.errors import translated
from notifier.adapters.cassandra.driver.session import Cluster
from notifier.domain.errors import StoreUnavailable
from notifier.domain.timing import Backoff

# How much may be on its way to Cassandra: more while it answers soon, half as much when it refuses.
#
# Additive increase, multiplicative decrease, as TCP does it: several writers that know nothing of each other end up
# with equal shares, and the node's line stays short enough for a tier in a hurry. In bytes, because messages differ
# tenfold.

BEGINS = 512 * 1024
"""Some 100 messages of inbox rows: what one node answers in 30 ms."""
LEAST = 256 * 1024
"""Keeps one node busy, though we are held up for a while; half as much does not."""
MOST = 8 * 1024 * 1024
STEP = 128 * 1024
"""What is added when as much as is allowed has been answered; before the first slowing down it is doubled."""
FULL = 0.75
"""Of what is allowed: below it more is not needed, above it who waits need not be told of every answer."""
SOON = 0.1
"""Seconds. Whoever waits longer waits in the node's line, in which others stand, too."""
BACKOFF = Backoff(first=timedelta(milliseconds=10), longest=timedelta(seconds=1))
"""After each refusal in a row, until a message is accepted."""


@dataclass(slots=True)
class CongestionWindow:
    allowed: float = BEGINS
    underway: int = 0
    refusals: int = 0
    """Since the last message was accepted."""
    quiet_until: float = 0.0
    slowed_at: float = 0.0

    @property
    def full(self) -> bool:
        return self.underway > FULL * self.allowed

    def wait(self, size: int, now: float) -> float | None:
        """Seconds until as much may be sent; None: until something is answered. A single message always may."""
        if now < self.quiet_until:
            return self.quiet_until - now
        return 0.0 if not self.underway or self.underway + size <= self.allowed else None

    def sent(self, size: int) -> None:
        self.underway += size

    def answered(self, size: int, sent_at: float, now: float) -> None:
        full = self.full
        self.underway -= size
        self.refusals = 0
        if now - sent_at > SOON:
            self._slow(0.8, sent_at, now)
        elif full:
            self.allowed = min(MOST, self.allowed + (STEP * size / self.allowed if self.slowed_at else size))

    def refused(self, size: int, sent_at: float, now: float) -> None:
        self.underway -= size
        if self._slow(0.5, sent_at, now):
            self.quiet_until = now + BACKOFF.delay(self.refusals).total_seconds()
            self.refusals += 1

    def gone(self, size: int) -> None:
        """Without an answer that says how busy the node is."""
        self.underway -= size

    def _slow(self, by: float, sent_at: float, now: float) -> bool:
        """Of what was sent before the last time it tells nothing new."""
        if sent_at < self.slowed_at:
            return False
        self.allowed, self.slowed_at = max(LEAST, self.allowed * by), now
        return True


PATIENCE = 3.0
"""Seconds in which nothing of a call is taken, after which its slice is better handed back."""

_BUSY = (vendor.WriteTimeout, protocol.OverloadedErrorMessage, ConnectionBusy, NoConnectionsAvailable)
"""The node is, or the way to it. Whether a row was written then doesn't matter: written again it is the same."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Call:
    """What one caller waits for."""

    refused: deque[RowBatch] = field(default_factory=deque)
    underway: int = 0
    error: BaseException | None = None
    refused_since: float | None = None
    """The first refusal after the last that was taken."""
    heard_at: float = field(default_factory=monotonic)
    """The last answer of any kind; while nothing is on its way, the last message."""


class Bulk:
    """Its callers share what may be on its way."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        patience: float = PATIENCE,
        window: CongestionWindow | None = None,
        handler: type[protocol.ProtocolHandler] = Splicing,
    ) -> None:
        self._cluster = cluster
        self._patience = patience
        self._silence = cluster.access.answers_within.total_seconds()
        self._handler = handler
        self._window = window or CongestionWindow()
        self._news = Condition()
        self._session: Session | None = None
        self._premade = False

    def query_id(self) -> bytes:
        """Return the id under which the nodes know the statement of a row. Raises StoreUnavailable."""
        found: bytes = self._cluster.prepared(INBOX_ROW).query_id
        return found

    def send(self, messages: Iterable[RowBatch]) -> None:
        """Taken by a quorum when it returns. What a busy node refuses is sent again, more slowly.

        Raises StoreUnavailable when the node doesn't answer, or takes nothing for a while; then some rows may have been
        written, and some may still be.
        """
        call = _Call()
        with translated("Rows were not written"):
            for message in self._turns(call, iter(messages)):
                self._go(call, message)

    def _turns(self, call: _Call, messages: Iterator[RowBatch]) -> Iterator[RowBatch]:
        """What was refused goes before what follows; ends when all are taken."""
        following = next(messages, None)
        while (message := self._turn(call, following)) is not None:
            yield message
            if message is following:
                following = next(messages, None)

    def _turn(self, call: _Call, following: RowBatch | None) -> RowBatch | None:
        with self._news:
            while call.error is None:
                message = call.refused[0] if call.refused else following
                if message is None and not call.underway:
                    return None
                wait = None if message is None else self._window.wait(message.size, monotonic())
                if message is not None and wait == 0.0:
                    if message is not following:
                        call.refused.popleft()
                    call.heard_at = call.heard_at if call.underway else monotonic()
                    call.underway += 1
                    self._window.sent(message.size)
                    return message
                self._wait(call, wait)
            raise call.error

    def _wait(self, call: _Call, seconds: float | None) -> None:
        """For news. The driver is given no time of its own to wait for each message: it would keep every one of them
        in memory until then, answered or not."""
        if call.underway:
            left = call.heard_at + self._silence - monotonic()
            if left <= 0:
                raise StoreUnavailable("Rows were not written: nothing is answered.")
            seconds = left if seconds is None else min(left, seconds)
        # Where other calls have all the room, and one of them is over without a word, somebody has to look again.
        self._news.wait(self._silence if seconds is None else seconds)

    def _go(self, call: _Call, message: RowBatch) -> None:
        told = partial(self._told, call, message, monotonic())
        try:
            future = self._ready(message).execute_async(self._statement(message), timeout=None)
        except BaseException as error:
            told(error)
            raise
        future.add_callbacks(lambda _: told(None), told)

    def _told(self, call: _Call, message: RowBatch, sent_at: float, error: BaseException | None) -> None:
        """In the driver's thread, which must not wait."""
        now = monotonic()
        with self._news:
            call.underway -= 1
            call.heard_at = now
            if error is None:
                self._window.answered(message.size, sent_at, now)
                call.refused_since = None
                if call.underway and self._window.full:
                    return  # nobody could send more
            elif _busy(error):
                self._window.refused(message.size, sent_at, now)
                call.refused.append(message)
                call.refused_since = now if call.refused_since is None else call.refused_since
                if now - call.refused_since > self._patience:
                    call.error = call.error or error
            else:
                self._window.gone(message.size)
                call.error = call.error or error
            self._news.notify_all()

    def _ready(self, message: RowBatch) -> Session:
        """The session, told once how to encode; or left alone, where the driver has become another."""
        session = self._cluster.session()
        if session is not self._session:
            if premade := fits(self._handler, message, self._cluster.prepared(message.statement)):
                session.client_protocol_handler = self._handler
            else:
                _log.warning("This cassandra-driver takes no premade messages: rows go in its own batches, slowly.")
            self._session, self._premade = session, premade
        return session

    def _statement(self, message: RowBatch) -> Any:
        return Premade(message) if self._premade else stock(message, self._cluster.prepared(message.statement))


def _busy(error: BaseException) -> bool:
    """When not even a message could be handed over, the driver tells what each node's connection said."""
    said = list(error.errors.values()) if isinstance(error, NoHostAvailable) else [error]
    return bool(said) and all(isinstance(each, _BUSY) for each in said)
