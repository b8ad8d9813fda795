"""How far mentions carry: verdicts, account preferences and the alert cap of authors."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from notifier import topics
from notifier.codec import unpack
from notifier.domain.bursts.events_and_mentions import Mention
from notifier.domain.bursts.moderation import MentionRefusal, MentionsAllowed, Verdict
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import Lane, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.wiring.intake import build_router
from tests.flow.event_status_and_mention_counts import mention_counts, status_of
from tests.support.failing_and_corrupt_ports import FailingPort
from tests.support.in_memory_system import LYRA, Stage


def test_verdict_applies_to_next_mention_and_survives_entry_writes() -> None:
    """A later write of the author's directory entry must not change the verdict."""
    stage = Stage()
    [before] = stage.state.directory.accounts([UserId("bob")]).values()
    stage.reach("bob", Verdict.DENY)
    stage.state.directory.enrol([replace(before, verified=True)])
    stage.mention("nova", author="bob")
    assert mention_counts(stage) == {}
    stage.reach("bob", Verdict.ALL)
    stage.mention("nova", author="bob")
    assert mention_counts(stage) == {"self:nova#1": 1, "mention:nova#1": 1}


def test_verdict_row_suppresses_alerts_of_the_mentioned_account() -> None:
    """In a flood aimed at one account, mentions by other authors still alert it at once."""
    stage = Stage()
    stage.reach("bob", Verdict.ROW)
    stage.mention("nova", author="bob")
    stage.deliver()
    assert (stage.state.phones.arrived, stage.sees("nova")) == ([], ["self:nova#1"])
    stage.mention("nova", author="ada")
    stage.deliver()
    assert "self:nova#2" in {str(sent.burst) for sent, _ in stage.state.phones.arrived}


def test_verdict_applies_to_an_unknown_author() -> None:
    """Operators may set verdicts for unknown authors: a flood comes from new accounts."""
    stage = Stage()
    stage.reach("newcomer", Verdict.HOLD)
    stage.mention("nova", author="newcomer")
    assert [hold.author for hold in stage.held()] == ["newcomer"]


@pytest.mark.parametrize(
    ("allowed", "author", "verified", "reaches_followers"),
    [
        (MentionsAllowed.ALL, "ada", False, True),
        (MentionsAllowed.FOLLOWED, "ada", True, False),
        (MentionsAllowed.FOLLOWED, "eve", False, True),
        (MentionsAllowed.VERIFIED, "eve", False, False),
        (MentionsAllowed.VERIFIED, "ada", True, True),
        (MentionsAllowed.NONE, "eve", True, False),
    ],
)
def test_account_preference_decides_which_mentions_reach_followers(
    allowed: MentionsAllowed, author: str, reaches_followers: bool, *, verified: bool
) -> None:
    """Nova follows eve. Mentions that she does not allow are still in her own inbox."""
    stage = Stage()
    [entry] = stage.state.directory.accounts([UserId(author)]).values()
    stage.state.directory.enrol([replace(entry, verified=verified)])
    stage.state.people.patch_account(UserId("nova"), AccountPreferencesPatch(mentions=allowed))
    stage.tweet("nova", author=author, id="e1")
    stage.sequence()
    assert set(mention_counts(stage)) == {"self:nova#1", *(["mention:nova#1"] if reaches_followers else [])}
    assert status_of(stage, "e1")[1] == {"nova": (None, 2) if reaches_followers else (MentionRefusal.NOT_WANTED, 1)}


def test_follows_are_checked_at_each_mention() -> None:
    stage = Stage()
    stage.state.people.patch_account(UserId("nova"), AccountPreferencesPatch(mentions=MentionsAllowed.FOLLOWED))
    stage.mention("nova", author="ada")
    stage.followed("nova", "ada", sequence=1)
    stage.mention("nova", author="ada")
    stage.followed("nova", "ada", sequence=2, ended=True)
    stage.mention("nova", author="ada")
    assert mention_counts(stage) == {"self:nova#1": 3, "mention:nova#1": 1}


def test_batch_costs_a_fixed_number_of_store_calls() -> None:
    stage, calls = Stage(), Counting()
    for name in ("nova", "lyra"):
        stage.state.people.patch_account(UserId(name), AccountPreferencesPatch(mentions=MentionsAllowed.FOLLOWED))
    for n in range(20):
        stage.tweet("nova", "lyra", author=("ada", "bob", "eve")[n % 3])
    ports = {
        name: calls.on(name, getattr(stage.state, name))
        for name in ("directory", "author_verdicts", "account_preferences", "follows")
    }
    build_router(stage.system(**ports))(list(stage.state.log.read_uncommitted(topics.MENTIONS, "router", 99)))
    assert calls.calls == {"directory": 1, "author_verdicts": 1, "account_preferences": 1, "follows": 1}


def test_refused_mentions_do_not_consume_the_cap() -> None:
    stage = Stage()
    stage.state.people.patch_account(UserId("nova"), AccountPreferencesPatch(mentions=MentionsAllowed.NONE))
    for _ in range(30):
        stage.mention("nova", author="bob")
    stage.mention("lyra", author="bob")
    [burst] = [stage.state.bursts.by_key[key] for key in stage.bursts(LYRA)]
    assert burst.verdict is Verdict.ALL


def test_celebrity_mentions_beyond_the_cap_get_the_verdict_row() -> None:
    stage = Stage()
    for _ in range(22):
        stage.tweet("nova", "orion", author="bob")
    records = list(stage.state.log.read_uncommitted(topics.MENTIONS, "router", 99))
    build_router(stage.system())(records[:21])
    build_router(stage.system(token_buckets=FailingPort(stage.state.token_buckets, CacheUnavailable)))(records[21:])
    verdicts = {lane: Counter(mention.verdict for mention in _routed(stage, lane)) for lane in Lane}
    # One more passes without the cache. Standard mentions have no cap, and each account has an item of its own.
    assert verdicts == {Lane.CELEBRITY: {Verdict.ALL: 21, Verdict.ROW: 1}, Lane.STANDARD: {Verdict.ALL: 66}}


def _routed(stage: Stage, lane: Lane) -> list[Mention]:
    records = stage.state.log.read_uncommitted(topics.LANE_STREAM[lane], "coordinator", 999)
    return [unpack(Mention, logged.record.value) for logged in records]


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
