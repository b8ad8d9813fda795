"""The oracle shares no code with what it checks, and knows right from wrong."""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from notifier.testing.oracle import Marked, Oracle, Person, Seen, Tweet
from tests.repo.sources import modules

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
KEY = ("mention", "nova", 1)
KIM = Person(name="kim", member=1, follows={"nova": NOON}, idle=timedelta(hours=1), push=True)
NOVA = Person(name="nova", member=2)
BURST = Seen(key=KEY, opened_at=NOON, tweets=("e1",))
OWN = Seen(key=("self", "nova", 1), opened_at=NOON, tweets=("e1",))
ORACLE = Oracle(
    people={"kim": KIM, "nova": NOVA},
    tweets={"e1": Tweet(id="e1", author="ada", mentioned=("nova", "ghost", "ada"))},
    bursts={KEY: BURST, OWN.key: OWN},
)


def seen_by(person: Person, oracle: Oracle = ORACLE, marked: Marked | None = None) -> list[tuple[str, str, int]]:
    people = {**oracle.people, person.name: person}
    return replace(oracle, people=people).list(person.name, marked or Marked(), NOON)


def test_the_oracle_imports_nothing_of_ours() -> None:
    [oracle] = [module for module in modules("notifier/testing") if module.path.endswith("testing/oracle.py")]
    assert {name.partition(".")[0] for name in oracle.imports()} <= set(sys.stdlib_module_names)


def test_a_follower_sees_a_burst_and_the_mentioned_her_own() -> None:
    assert seen_by(KIM) == [KEY]
    assert seen_by(NOVA) == [OWN.key]


@pytest.mark.parametrize(
    "person",
    [
        replace(KIM, follows={}),
        replace(KIM, muted=frozenset({"nova"})),
        replace(KIM, follows={"nova": NOON + timedelta(milliseconds=1)}),
        replace(KIM, volume={"nova": "off"}),
        replace(KIM, blocked=frozenset({"ada"})),
    ],
    ids=["unfollowed", "muted", "followed later", "off", "blocked"],
)
def test_whoever_a_rule_leaves_out_sees_nothing(person: Person) -> None:
    assert seen_by(person) == []


def test_a_protected_authors_burst_is_for_her_followers() -> None:
    secret = replace(ORACLE, tweets={"e1": Tweet(id="e1", author="eve", mentioned=("nova",), protected=True)})
    assert seen_by(KIM, secret) == []
    follower = replace(KIM, follows={"nova": NOON, "eve": NOON})
    assert seen_by(follower, secret) == [KEY]
    assert seen_by(replace(follower, muted=frozenset({"eve"})), secret) == [KEY]


def test_the_days_first_is_for_those_who_want_no_more() -> None:
    second = Seen(key=("mention", "nova", 2), opened_at=NOON + timedelta(hours=1), tweets=("e1",))
    later = replace(ORACLE, bursts={**ORACLE.bursts, second.key: second})
    assert seen_by(KIM, later) == [second.key, KEY]
    assert seen_by(replace(KIM, volume={"nova": "first"}), later) == [KEY]


def test_a_mark_speaks_before_what_was_seen() -> None:
    seen = Marked(seen=[(NOON, ())])
    assert ORACLE.unread(BURST, Marked())
    assert not ORACLE.unread(BURST, seen)
    assert ORACLE.unread(BURST, replace(seen, marks={KEY: "unread"}))
    assert seen_by(KIM, marked=Marked(marks={KEY: "hidden"})) == []


def test_a_phone_rings_for_what_is_new_and_opened_by_nobody_who_is_blocked() -> None:
    tweets = {**ORACLE.tweets, "e2": Tweet(id="e2", author="bob", mentioned=("nova",))}
    joined = replace(BURST, tweets=("e1", "e2"))
    oracle = replace(ORACLE, tweets=tweets, bursts={KEY: joined})

    def rings(person: Person = KIM, marked: Marked | None = None) -> bool:
        return oracle.rings(person, joined, marked or Marked(), NOON)

    assert rings()
    assert rings(replace(KIM, blocked=frozenset({"bob"})))
    assert rings(marked=Marked(seen=[(NOON - timedelta(milliseconds=1), ())]))
    assert not rings(replace(KIM, blocked=frozenset({"ada"})))
    assert not rings(replace(KIM, muted=frozenset({"nova"})))
    assert not rings(marked=Marked(seen=[(NOON, ())]))
    assert not rings(marked=Marked(seen=[(NOON - timedelta(hours=1), [KEY])]))
    assert not any(rings(marked=Marked(marks={KEY: mark})) for mark in ("read", "unread", "hidden"))


def test_everybody_is_in_one_tier_or_left_out_by_a_rule() -> None:
    vip, idle = (
        replace(KIM, name="vip", member=3, vip=True),
        replace(KIM, name="idle", member=4, idle=timedelta(days=40)),
    )
    muted = replace(KIM, name="muted", member=5, muted=frozenset({"nova"}))
    oracle = replace(ORACLE, people={person.name: person for person in (KIM, NOVA, vip, idle, muted)})
    found = oracle.divide(BURST, 0, standard=False)
    assert found.tiers == {"p0": {3}, "p1": {1}, "p2": frozenset()}
    assert (found.dormant, found.suppressed, found.push) == (1, 1, frozenset({1, 3}))
    assert oracle.divide(BURST, 0, standard=True).tiers["p2"] == {4}


def test_a_mention_that_is_nowhere_or_twice_is_wrong() -> None:
    assert list(ORACLE.sequencing(["e1"])) == []
    assert list(replace(ORACLE, bursts={KEY: BURST}).sequencing(["e1"])) == ["e1 is in no burst of self:nova"]
    twice = replace(
        ORACLE, bursts={**ORACLE.bursts, ("mention", "nova", 2): replace(BURST, key=("mention", "nova", 2))}
    )
    assert list(twice.sequencing(["e1"])) == ["e1 is in 2 bursts of mention:nova"]


def test_bursts_closer_than_the_window_or_beyond_the_budget_are_wrong() -> None:
    def apart(by: timedelta, n: int) -> Oracle:
        keys = [("mention", "nova", i) for i in range(1, n + 1)]
        return replace(ORACLE, bursts={k: Seen(key=k, opened_at=NOON + by * k[2], tweets=("e1",)) for k in keys})

    minute = timedelta(minutes=1)
    assert list(apart(minute, 6).spacing(minute, ["nova"])) == []
    assert list(apart(minute / 2, 2).spacing(minute, ())) == ["two bursts of mention:nova are closer than 0:01:00"]
    assert list(apart(minute, 9).spacing(minute, ["nova"])) == ["mention:nova had 8 fan-outs within 0:07:00"]
