"""Retractions of many mentions: unnamed authors, batches, order and memory."""

from dataclasses import replace

import pytest

from notifier import topics
from notifier.domain.bursts.burst import MAX_MENTIONERS
from notifier.domain.bursts.retraction import RetractionCause, tweet_key
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import ERASED_TYPE
from notifier.flow.sequencing import retracted_burst_updates
from notifier.wiring.sequencing import build_retraction_settlement
from tests.flow.retraction_steps import (
    RecordsBatchSizes,
    append_to_log_only,
    delete,
    deletion,
    mentioners,
    newest_burst,
)
from tests.support.failing_and_corrupt_ports import CorruptHead
from tests.support.in_memory_system import LYRA, Stage


def test_burst_with_unnamed_authors_names_one_after_deletions() -> None:
    stage = Stage()
    authors = [f"a{n}" for n in range(MAX_MENTIONERS + 1)]
    for author in authors:
        stage.mention("nova", author=author, of=author)
    assert newest_burst(stage).more_mentioners
    for author in authors[:-1]:
        delete(stage, author, author)
    assert (newest_burst(stage).count, newest_burst(stage).mentioners, newest_burst(stage).tweet) == (
        1,
        (authors[-1],),
        authors[-1],
    )


def test_unnamed_author_is_kept_when_named_ones_are_retracted() -> None:
    """When many authors are erased at once, all retractions are stored before the first is settled."""
    stage = Stage()
    authors = [f"a{n}" for n in range(MAX_MENTIONERS + 1)]
    for author in authors:
        stage.mention("nova", author=author, of=author)
    retractions = [deletion(stage, author) for author in authors[1:-1]]
    stage.state.retractions.write(retractions)
    delete(stage, authors[0], authors[0])
    assert (newest_burst(stage).count, newest_burst(stage).tweet, newest_burst(stage).opener) == (
        MAX_MENTIONERS,
        authors[-1],
        authors[-1],
    )
    build_retraction_settlement(stage.system()).settle(retractions)
    assert (newest_burst(stage).count, newest_burst(stage).mentioners) == (1, (authors[-1],))
    assert mentioners(stage, "kim") == [(authors[-1],)]


def test_restricted_burst_counts_all_mentions_settled_in_batches() -> None:
    """Mentions are settled in batches, or one of them is written after the first was settled."""
    stage = Stage()
    for tweet in ("t1", "t2"):
        stage.mention("nova", author="eve", of=tweet)
    retraction = replace(deletion(stage, "", "eve"), cause=RetractionCause.PROTECT)
    stage.state.retractions.write([retraction])
    for tweet in ("t1", "t2"):
        list(build_retraction_settlement(stage.system()).settle_keys([tweet_key(UserId("eve"), tweet)]))
    assert (newest_burst(stage).count, newest_burst(stage).restricted_to) == (2, "eve")
    delete(stage, "t1", "eve")
    assert (newest_burst(stage).count, newest_burst(stage).tweet) == (1, "t2")
    assert (stage.sees("kim"), stage.sees("lee")) == (["mention:nova#1"], [])


def test_request_settles_newest_bursts_and_leaves_the_rest() -> None:
    stage = Stage()
    for n in range(3):
        stage.mention("nova", author="eve", of=f"t{n}", protected=True)
        stage.pass_time(days=1)
    retraction = replace(deletion(stage, "", "eve"), cause=RetractionCause.ERASE)
    build_retraction_settlement(stage.system()).settle(
        [retraction], limit=4
    )  # two bursts each: nova's own and her followers'
    assert stage.sees("kim") == ["mention:nova#1"]
    build_retraction_settlement(stage.system()).settle([retraction])
    assert stage.sees("kim") == []


@pytest.mark.parametrize(
    "order", [(RetractionCause.PROTECT, RetractionCause.ERASE), (RetractionCause.ERASE, RetractionCause.PROTECT)]
)
def test_erasure_and_protection_apply_in_either_order(
    order: tuple[RetractionCause, RetractionCause],
) -> None:
    """In either order, each retraction applies to what was written until its own time."""
    stage = Stage()
    erased = replace(deletion(stage, "", "eve"), cause=RetractionCause.ERASE)
    stage.pass_time(seconds=1)
    stage.mention("nova", author="eve")
    retractions = {
        RetractionCause.ERASE: erased,
        RetractionCause.PROTECT: replace(erased, cause=RetractionCause.PROTECT, at=stage.state.clock.now()),
    }
    for cause in order:
        build_retraction_settlement(stage.system()).settle([retractions[cause]])
    assert (stage.sees("kim"), stage.sees("lee")) == (["mention:nova#1"], [])
    stage.mention("nova", author="eve", of="another")
    assert stage.sees("lee") == []


def test_unreadable_head_does_not_block_other_accounts() -> None:
    stage = Stage()
    stage.mention("lyra", "nova", "orion", author="eve")
    append_to_log_only(stage, ERASED_TYPE, user="eve")
    unreadable = CorruptHead(stage.state.heads, LYRA)
    stage.pump(topics.RETRACTIONS, heads=unreadable).step()
    assert stage.sees("kim") == stage.sees("nova") == []
    assert stage.sees("lee") == ["mention:lyra#1"]
    [letter] = stage.state.dead_letters.list(9)
    assert letter.stage == topics.GROUPS[topics.RETRACTIONS]
    stage.send_event(ERASED_TYPE, stage.system(heads=unreadable), user="eve")  # accepted despite the unreadable head


def test_erasure_of_many_mentions_runs_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, batch_size = Stage(), 4
    monkeypatch.setattr(retracted_burst_updates, "MENTIONS_PER_BATCH", batch_size)
    for n in range(batch_size):
        stage.mention("nova", author="eve", of=f"t{n}", protected=True)
    append_to_log_only(stage, ERASED_TYPE, user="eve")
    sizes = list[int]()
    stage.pump(topics.RETRACTIONS, bus=RecordsBatchSizes(sizes)).step()
    assert all(burst.is_retracted for burst in stage.state.bursts.by_key.values())
    assert max(sizes) <= batch_size + 1  # plus the message that something may have been missed
    assert sum(sizes) >= len(stage.state.bursts.by_key)
