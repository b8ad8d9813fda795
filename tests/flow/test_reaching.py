"""How far a mention carries: by an operator's word, by the account's own wish, and by the cap."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from notifier import topics
from notifier.codec import unpack
from notifier.domain.bursts.mention import Mention
from notifier.domain.bursts.moderation import MentionRefusal, MentionsAllowed, Verdict
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Lane, UserId
from notifier.domain.users.account_preferences import OverallWish
from notifier.wiring.intake import build_router
from tests.flow.event_statuses import counts, status_of
from tests.support.failing_ports import Refusing
from tests.support.in_memory_system import LYRA, Stage


def test_a_standing_counts_from_the_next_mention_on_and_no_registrar_undoes_it() -> None:
    """Whoever writes the directory's entry of the mentioner, with what was true before, says nothing of it."""
    stage = Stage()
    [before] = stage.ground.directory.accounts([UserId("bob")]).values()
    stage.reach("bob", Verdict.DENY)
    stage.ground.directory.enrol([replace(before, verified=True)])
    stage.mention("nova", author="bob")
    assert counts(stage) == {}
    stage.reach("bob", Verdict.ALL)
    stage.mention("nova", author="bob")
    assert counts(stage) == {"self:nova#1": 1, "mention:nova#1": 1}


def test_whose_mentions_wake_no_phone_wakes_not_even_that_of_the_account_itself() -> None:
    """As of a flood that is aimed at one account; another's rings it at once, and is no part of that."""
    stage = Stage()
    stage.reach("bob", Verdict.ROW)
    stage.mention("nova", author="bob")
    stage.deliver()
    assert (stage.ground.phones.arrived, stage.sees("nova")) == ([], ["self:nova#1"])
    stage.mention("nova", author="ada")
    stage.deliver()
    assert "self:nova#2" in {str(sent.burst) for sent, _ in stage.ground.phones.arrived}


def test_a_mention_of_nobody_s_and_by_nobody_known_is_judged_all_the_same() -> None:
    """An operator may say something of who was never heard of: a flood comes from new accounts."""
    stage = Stage()
    stage.reach("newcomer", Verdict.HOLD)
    stage.mention("nova", author="newcomer")
    assert [hold.author for hold in stage.held()] == ["newcomer"]


@pytest.mark.parametrize(
    ("wish", "author", "verified", "told"),
    [
        (MentionsAllowed.ALL, "ada", False, True),
        (MentionsAllowed.FOLLOWED, "ada", True, False),
        (MentionsAllowed.FOLLOWED, "eve", False, True),
        (MentionsAllowed.VERIFIED, "eve", False, False),
        (MentionsAllowed.VERIFIED, "ada", True, True),
        (MentionsAllowed.NONE, "eve", True, False),
    ],
)
def test_an_account_says_whose_mentions_its_followers_are_told(
    wish: MentionsAllowed, author: str, told: bool, *, verified: bool
) -> None:
    """She follows eve. What she doesn't want she is told herself all the same."""
    stage = Stage()
    [entry] = stage.ground.directory.accounts([UserId(author)]).values()
    stage.ground.directory.enrol([replace(entry, verified=verified)])
    stage.ground.people.arrange(UserId("nova"), OverallWish(mentions=wish))
    stage.tweet("nova", author=author, id="e1")
    stage.sequence()
    assert set(counts(stage)) == {"self:nova#1", *(["mention:nova#1"] if told else [])}
    assert status_of(stage, "e1")[1] == {"nova": (None, 2) if told else (MentionRefusal.NOT_WANTED, 1)}


def test_who_is_followed_is_asked_at_each_mention() -> None:
    stage = Stage()
    stage.ground.people.arrange(UserId("nova"), OverallWish(mentions=MentionsAllowed.FOLLOWED))
    stage.mention("nova", author="ada")
    stage.followed("nova", "ada", sequence=1)
    stage.mention("nova", author="ada")
    stage.followed("nova", "ada", sequence=2, ended=True)
    stage.mention("nova", author="ada")
    assert counts(stage) == {"self:nova#1": 3, "mention:nova#1": 1}


def test_a_whole_batch_asks_the_store_a_fixed_number_of_times() -> None:
    stage, asked = Stage(), Counting()
    for name in ("nova", "lyra"):
        stage.ground.people.arrange(UserId(name), OverallWish(mentions=MentionsAllowed.FOLLOWED))
    for n in range(20):
        stage.tweet("nova", "lyra", author=("ada", "bob", "eve")[n % 3])
    ports = {
        name: asked.on(name, getattr(stage.ground, name)) for name in ("directory", "reaches", "overalls", "follows")
    }
    build_router(stage.system(**ports))(list(stage.ground.log.waiting(topics.MENTIONS, "router", 99)))
    assert asked.calls == {"directory": 1, "reaches": 1, "overalls": 1, "follows": 1}


def test_what_is_refused_spends_nothing_of_the_cap() -> None:
    stage = Stage()
    stage.ground.people.arrange(UserId("nova"), OverallWish(mentions=MentionsAllowed.NONE))
    for _ in range(30):
        stage.mention("nova", author="bob")
    stage.mention("lyra", author="bob")
    [burst] = [stage.ground.bursts.by_key[key] for key in stage.bursts(LYRA)]
    assert burst.verdict is Verdict.ALL


def test_beyond_the_cap_mentions_of_celebrities_wake_no_phone() -> None:
    stage = Stage()
    for _ in range(22):
        stage.tweet("nova", "orion", author="bob")
    records = list(stage.ground.log.waiting(topics.MENTIONS, "router", 99))
    build_router(stage.system())(records[:21])
    build_router(stage.system(buckets=Refusing(stage.ground.buckets, CacheUnavailable)))(records[21:])
    verdicts = {lane: Counter(one.verdict for one in _routed(stage, lane)) for lane in Lane}
    # Without the cache one more passes; of who is no celebrity nobody counts; and each has its own.
    assert verdicts == {Lane.CELEBRITY: {Verdict.ALL: 21, Verdict.ROW: 1}, Lane.STANDARD: {Verdict.ALL: 66}}


def _routed(stage: Stage, lane: Lane) -> list[Mention]:
    found = stage.ground.log.waiting(topics.LANE_STREAM[lane], "coordinator", 999)
    return [unpack(Mention, logged.record.value) for logged in found]


class Counting:
    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def on(self, name: str, port: object) -> Any:
        counting = self

        class Counted:
            def __getattr__(self, method: str) -> Any:
                counting.calls[name] = counting.calls.get(name, 0) + 1
                return getattr(port, method)

        return Counted()
