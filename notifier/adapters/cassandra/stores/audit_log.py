"""The audit: append-only, each row's hash over the one before it, so that no row can be changed unseen."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime

from notifier.adapters.cassandra.driver.session import SERIAL, Cluster
from notifier.domain.errors import StoreUnavailable

PAGE = 500
TRIES = 16
"""Of numbers that others took first; operators are few."""
BOOK = "audit"

_LAST = f"SELECT number, hash FROM audit WHERE book = '{BOOK}' LIMIT 1"
_ADD = f"INSERT INTO audit (book, number, hash, body) VALUES ('{BOOK}', ?, ?, ?) IF NOT EXISTS"
_HASH = f"SELECT hash FROM audit WHERE book = '{BOOK}' AND number = ?"
_AFTER = f"SELECT number, hash, body FROM audit WHERE book = '{BOOK}' AND number > ? ORDER BY number ASC LIMIT ?"


def record(cluster: Cluster, *, at: datetime, who: str, what: str, detail: Mapping[str, object]) -> None:
    """To be called before the deed: there is no deed without its row, though a crash may leave a row without its deed.

    Raises StoreUnavailable when the row isn't known to stand; then the deed must not be done.
    """
    entry = {"at": at.isoformat(), "who": who, "what": what, **detail}
    body = json.dumps(entry, sort_keys=True, ensure_ascii=False).encode()
    for _ in range(TRIES):
        last = cluster.ask(_LAST, profile=SERIAL)
        number, before = last[0] if last else (0, b"")
        if _added(cluster, number + 1, _chained(before, body), body):
            return
    raise StoreUnavailable("Others write to the audit all the time.")


def entries(cluster: Cluster) -> Iterator[tuple[bytes, bool]]:
    """The bodies, oldest first, each with whether it and its place are as they were written."""
    number, before = 0, b""
    while page := cluster.ask(_AFTER, (number, PAGE)):
        for _, found, body in page:
            yield body, found == _chained(before, body)
            before = found
        number = page[-1].number


def _added(cluster: Cluster, number: int, hash: bytes, body: bytes) -> bool:
    """A row without an answer is known again by its hash: it stands for the same words at the same place."""
    [applied] = cluster.decide_each([(_ADD, (number, hash, body))])
    if applied is not None:
        return applied
    if not (stored := cluster.ask(_HASH, (number,), profile=SERIAL)):
        raise StoreUnavailable("Whether the audit has the row isn't known yet.")
    return bool(stored[0][0] == hash)


def _chained(before: bytes, body: bytes) -> bytes:
    return hashlib.sha256(before + body).digest()
