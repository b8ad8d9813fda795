"""What operators said of mentioners: the last word stands, as a whole, and every word is in the audit."""

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
WORD = ReachWord(user=UserId("bob"), verdict=Verdict.HOLD, reason="a flood", who="grace", at=START)


def test_a_word_stands_as_it_was_said(backend: Backend) -> None:
    backend.reaches.say(WORD)
    assert backend.reaches.standing([WORD.user, UserId("ada")]) == {WORD.user: WORD}


def test_of_whom_nothing_was_said_nothing_stands(backend: Backend) -> None:
    assert backend.reaches.standing([]) == {}
    assert backend.reaches.standing([UserId("ada"), UserId("")]) == {}
    assert list(backend.reaches.listed()) == []


def test_what_was_said_last_stands_in_whatever_order_the_words_come(backend: Backend) -> None:
    words = [replace(WORD, verdict=verdict, who=verdict, at=START + n * SECOND) for n, verdict in enumerate(Verdict)]
    for n, order in enumerate(permutations(words)):
        user = UserId(f"u{n}")
        for word in order:
            backend.reaches.say(replace(word, user=user))
        assert backend.reaches.standing([user]) == {user: replace(words[-1], user=user)}


def test_everybody_is_listed_by_name_also_where_all_was_taken_back(backend: Backend) -> None:
    words = [replace(WORD, user=UserId(name), verdict=Verdict.ALL) for name in ("zoe", "ada", "élan", "bob")]
    for word in words:
        backend.reaches.say(word)
    assert [word.user for word in backend.reaches.listed()] == ["ada", "bob", "zoe", "élan"]


def test_of_many_each_is_found(backend: Backend) -> None:
    users = [UserId(f"u{n}") for n in range(60)]
    for user in users[::2]:
        backend.reaches.say(replace(WORD, user=user))
    assert set(backend.reaches.standing(users)) == set(users[::2])


def test_every_word_is_in_the_audit_with_who_said_it(sqlite: Backend, files: Files) -> None:
    sqlite.reaches.say(WORD)
    sqlite.reaches.say(replace(WORD, verdict=Verdict.ALL, who="ada", at=START + SECOND))
    found = [json.loads(body) for body, intact in entries(files.core) if intact]
    told = [(entry["who"], entry["what"], entry["user"], entry["verdict"], entry["reason"]) for entry in found]
    assert told == [("grace", "reach.say", "bob", "hold", "a flood"), ("ada", "reach.say", "bob", "all", "a flood")]
