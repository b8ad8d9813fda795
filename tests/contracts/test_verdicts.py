"""Operators' verdicts on authors: the newest one wins, and all are audited."""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import permutations

from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.stores.inbox import entries
from notifier.domain.bursts.moderation import ReachWord, Verdict
from notifier.domain.ids import UserId
from tests.contracts.backends import Backend
from tests.support.fakes.clock import START

SECOND = timedelta(seconds=1)
CHANGE = ReachWord(user=UserId("bob"), verdict=Verdict.HOLD, reason="a flood", who="grace", at=START)


def test_verdict_is_read_as_written(backend: Backend) -> None:
    backend.reaches.say(CHANGE)
    assert backend.reaches.standing([CHANGE.user, UserId("ada")]) == {CHANGE.user: CHANGE}


def test_unknown_author_has_no_verdict(backend: Backend) -> None:
    assert backend.reaches.standing([]) == {}
    assert backend.reaches.standing([UserId("ada"), UserId("")]) == {}
    assert list(backend.reaches.listed()) == []


def test_newest_verdict_wins_in_any_order(backend: Backend) -> None:
    changes = [
        replace(CHANGE, verdict=verdict, who=verdict, at=START + n * SECOND) for n, verdict in enumerate(Verdict)
    ]
    for n, order in enumerate(permutations(changes)):
        user = UserId(f"u{n}")
        for change in order:
            backend.reaches.say(replace(change, user=user))
        assert backend.reaches.standing([user]) == {user: replace(changes[-1], user=user)}


def test_all_verdicts_are_listed_by_name_even_the_default(backend: Backend) -> None:
    changes = [replace(CHANGE, user=UserId(name), verdict=Verdict.ALL) for name in ("zoe", "ada", "élan", "bob")]
    for change in changes:
        backend.reaches.say(change)
    assert [change.user for change in backend.reaches.listed()] == ["ada", "bob", "zoe", "élan"]


def test_verdicts_of_many_authors_are_returned(backend: Backend) -> None:
    users = [UserId(f"u{n}") for n in range(60)]
    for user in users[::2]:
        backend.reaches.say(replace(CHANGE, user=user))
    assert set(backend.reaches.standing(users)) == set(users[::2])


def test_every_verdict_is_audited_with_its_operator(sqlite: Backend, files: Files) -> None:
    sqlite.reaches.say(CHANGE)
    sqlite.reaches.say(replace(CHANGE, verdict=Verdict.ALL, who="ada", at=START + SECOND))
    audit = [json.loads(body) for body, intact in entries(files.core) if intact]
    decisions = [(entry["who"], entry["what"], entry["user"], entry["verdict"], entry["reason"]) for entry in audit]
    assert decisions == [
        ("grace", "reach.say", "bob", "hold", "a flood"),
        ("ada", "reach.say", "bob", "all", "a flood"),
    ]
