"""Operators' verdicts on authors: the newest one wins, and all are audited."""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import permutations

from notifier.adapters.sqlite.database_and_query_files import Files
from notifier.adapters.sqlite.stores.leases_epochs_throttles_audit import audit_entries
from notifier.domain.bursts.moderation import AuthorVerdict, Verdict
from notifier.domain.ids import UserId
from tests.contracts.memory_and_sqlite_backends import Backend
from tests.support.fakes.clock_and_nonces import START

SECOND = timedelta(seconds=1)
CHANGE = AuthorVerdict(user=UserId("bob"), verdict=Verdict.HOLD, reason="a flood", operator="grace", at=START)


def test_verdict_is_read_as_written(backend: Backend) -> None:
    backend.author_verdicts.put(CHANGE)
    assert backend.author_verdicts.read_current([CHANGE.user, UserId("ada")]) == {CHANGE.user: CHANGE}


def test_unknown_author_has_no_verdict(backend: Backend) -> None:
    assert backend.author_verdicts.read_current([]) == {}
    assert backend.author_verdicts.read_current([UserId("ada"), UserId("")]) == {}
    assert list(backend.author_verdicts.read_all()) == []


def test_newest_verdict_wins_in_any_order(backend: Backend) -> None:
    changes = [
        replace(CHANGE, verdict=verdict, operator=verdict, at=START + n * SECOND) for n, verdict in enumerate(Verdict)
    ]
    for n, order in enumerate(permutations(changes)):
        user = UserId(f"u{n}")
        for change in order:
            backend.author_verdicts.put(replace(change, user=user))
        assert backend.author_verdicts.read_current([user]) == {user: replace(changes[-1], user=user)}


def test_all_verdicts_are_listed_by_name_even_the_default(backend: Backend) -> None:
    changes = [replace(CHANGE, user=UserId(name), verdict=Verdict.ALL) for name in ("zoe", "ada", "élan", "bob")]
    for change in changes:
        backend.author_verdicts.put(change)
    assert [change.user for change in backend.author_verdicts.read_all()] == ["ada", "bob", "zoe", "élan"]


def test_verdicts_of_many_authors_are_returned(backend: Backend) -> None:
    users = [UserId(f"u{n}") for n in range(60)]
    for user in users[::2]:
        backend.author_verdicts.put(replace(CHANGE, user=user))
    assert set(backend.author_verdicts.read_current(users)) == set(users[::2])


def test_every_verdict_is_audited_with_its_operator(sqlite: Backend, files: Files) -> None:
    sqlite.author_verdicts.put(CHANGE)
    sqlite.author_verdicts.put(replace(CHANGE, verdict=Verdict.ALL, operator="ada", at=START + SECOND))
    audit = [json.loads(body) for body, intact in audit_entries(files.core) if intact]
    decisions = [
        (entry["operator"], entry["action"], entry["user"], entry["verdict"], entry["reason"]) for entry in audit
    ]
    assert decisions == [
        ("grace", "verdict.set", "bob", "hold", "a flood"),
        ("ada", "verdict.set", "bob", "all", "a flood"),
    ]
