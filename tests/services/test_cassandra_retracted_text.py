"""Retracted text is in no cell of Cassandra, in any order of writes."""

from dataclasses import replace

import pytest

from notifier.adapters.cassandra import (
    CassandraBursts,
    CassandraDeadLetters,
    CassandraErasureTargets,
    CassandraRetractions,
    Cluster,
)
from notifier.domain.bursts.events_and_mentions import EventId
from notifier.domain.bursts.retraction import tweet_key
from notifier.domain.bursts.sequencer import SequencedMention
from notifier.domain.errors import StoreUnavailable
from notifier.ports.event_log_and_dead_letters import DeadLetter
from tests.support.cassandra_keyspace import ON_ENGINES, clock, cluster, shared_cluster
from tests.support.contract_examples import NOVA, burst, mention
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.lossy_cassandra import LOST, LossyCluster

__all__ = ["clock", "cluster", "shared_cluster"]

pytestmark = ON_ENGINES


def cells(cluster: Cluster) -> list[bytes]:
    rows = cluster.query("SELECT blob, changed FROM mentions ALLOW FILTERING")
    return [cell for row in rows for cell in row if cell is not None]


def test_retracted_text_is_in_no_cell_after_a_late_write(cluster: Cluster, clock: ManualClock) -> None:
    bursts = CassandraBursts(cluster, clock)
    retracted, kept = (
        SequencedMention(
            mention=replace(mention(NOVA, event=EventId("tweets", name)), text=f"the words of {name}"), seq=1
        )
        for name in ("bob", "eve")
    )
    bursts.write([burst()], [retracted, kept])
    edited = replace(retracted, mention=replace(retracted.mention, text="other words of bob"))
    bursts.write([burst(version=2)], [], [edited])
    erased = replace(retracted, mention=replace(retracted.mention, text="", retracted=True))
    for _ in range(2):
        bursts.write([burst(version=3)], [], [erased])
        bursts.write([burst(version=2)], [retracted], [edited])  # a late write of a process that had stalled
    assert [cell for cell in cells(cluster) if b"words of bob" in cell] == []
    assert len([cell for cell in cells(cluster) if b"words of eve" in cell]) == 1
    retractions = CassandraRetractions(cluster)
    mentions = retractions.read_mentions(
        [*retractions.mention_locations([tweet_key(retracted.mention.author, retracted.mention.tweet)])]
    )
    assert sorted(mentions.values(), key=lambda stored: stored.event) == [erased.mention, kept.mention]


@pytest.mark.parametrize("erased", [False, True], ids=["not erased", "erased"])
def test_erasure_with_lost_response_fails_and_can_be_repeated(
    cluster: Cluster, clock: ManualClock, *, erased: bool
) -> None:
    dead_letters = CassandraDeadLetters(cluster, clock)
    letter = DeadLetter(id="mentions/0#1", stage="router", cause="unreadable", body=b"the words of bob", at=START)
    dead_letters.put(letter)
    lossy = LossyCluster(cluster, LOST[0], done=erased)
    with pytest.raises(StoreUnavailable, match="Unknown whether"):
        CassandraErasureTargets(lossy, clock).erase_letter_bodies([letter])
    CassandraErasureTargets(cluster, clock).erase_letter_bodies([letter])
    assert [stored.body for stored in dead_letters.list(10)] == [b""]
