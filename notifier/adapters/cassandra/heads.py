"""The heads: each is replaced only by the version that follows the stored one, decided by Paxos."""

from collections.abc import Collection, Mapping, Sequence

from notifier.adapters.cassandra.session import SERIAL, Cluster
from notifier.codec import pack, unpack
from notifier.domain.bursts.sequencer import Head
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Subject

_LOAD = "SELECT blob FROM heads WHERE subject = ?"
_STORED = "SELECT version, nonce FROM heads WHERE subject = ?"
_FIRST = "INSERT INTO heads (version, nonce, published, blob, subject) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
_NEXT = "UPDATE heads SET version = ?, nonce = ?, published = ?, blob = ? WHERE subject = ? IF version = ?"
_UNPUBLISHED = "SELECT subject FROM heads WHERE published = false LIMIT ?"


class CassandraHeads:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def load(self, subjects: Collection[Subject]) -> Mapping[Subject, Head]:
        # At SERIAL, because what is decided next stands on it, and because this finishes a swap that was cut off.
        found = self._cluster.ask_each(_LOAD, [(str(subject),) for subject in subjects], profile=SERIAL)
        stored = {head.subject: head for head in (unpack(Head, blob) for rows in found for (blob,) in rows)}
        return {subject: stored.get(subject) or Head.fresh(subject) for subject in subjects}

    def swap(self, heads: Sequence[Head]) -> Sequence[bool]:
        swapped = self._cluster.decide_each(_swap(head) for head in heads)
        doubtful = [head for head, won in zip(heads, swapped, strict=True) if not won]
        found = self._cluster.ask_each(_STORED, [(str(head.subject),) for head in doubtful], profile=SERIAL)
        stored = {head.subject: tuple(rows[0]) if rows else (0, "") for head, rows in zip(doubtful, found, strict=True)}
        return [won or _is_ours(head, won, *stored[head.subject]) for head, won in zip(heads, swapped, strict=True)]

    def unpublished(self, limit: int) -> Sequence[Subject]:
        # A plain read of the index, which may miss a swap whose Paxos round was cut off. That hides no work for ever: a
        # swap that brings work is made for records of the log, which are read again until the swap has answered and
        # the work is done; whoever reads them loads the head at SERIAL, and that finishes the round. What it finds in
        # vain, because the swap that took the work off was cut off, whoever finishes the head loads at SERIAL as well.
        return [Subject.parse(subject) for (subject,) in self._cluster.ask(_UNPUBLISHED, (limit,))]


def _swap(head: Head) -> tuple[str, tuple[object, ...]]:
    row = (head.version, head.nonce, head.published, pack(head), str(head.subject))
    return (_FIRST, row) if head.version == 1 else (_NEXT, (*row, head.version - 1))


def _is_ours(head: Head, won: bool | None, version: int, nonce: str) -> bool:
    """Of a swap that was refused, or whose answer was lost, by what a read at SERIAL found after it.

    Nobody else makes this nonce. Once the version has come, a swap to it can take effect no more; before, one without
    an answer still might, however late, and nobody may say that it didn't.
    """
    if won is None and version < head.version:
        raise StoreUnavailable(f"Whether the head of {head.subject} was replaced isn't known yet.")
    return (version, nonce) == (head.version, head.nonce)
