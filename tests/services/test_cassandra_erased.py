"""What was taken back is in no cell of Cassandra, in whatever order its writes arrive."""

from dataclasses import replace

from notifier.adapters.cassandra import CassandraBursts, CassandraRetractions, Cluster
from notifier.domain.bursts.mention import EventId
from notifier.domain.bursts.retraction import tweet_trail
from notifier.domain.bursts.sequencer import Sequenced
from tests.support.contract_examples import NOVA, burst, mention
from tests.support.fakes.clock import ManualClock
from tests.support.lossy_cassandra import ON_ENGINES, clock, cluster, made

__all__ = ["clock", "cluster", "made"]

pytestmark = ON_ENGINES


def cells(cluster: Cluster) -> list[bytes]:
    rows = cluster.ask("SELECT blob, changed FROM mentions ALLOW FILTERING")
    return [cell for row in rows for cell in row if cell is not None]


def test_its_text_is_in_no_cell_though_the_mention_is_written_once_more(cluster: Cluster, clock: ManualClock) -> None:
    bursts = CassandraBursts(cluster, clock)
    one, other = (
        Sequenced(mention=replace(mention(NOVA, event=EventId("tweets", name)), text=f"the words of {name}"), seq=1)
        for name in ("bob", "eve")
    )
    bursts.write([burst()], [one, other])
    edited = replace(one, mention=replace(one.mention, text="other words of bob"))
    bursts.write([burst(version=2)], [], [edited])
    gone = replace(one, mention=replace(one.mention, text="", retracted=True))
    for _ in range(2):
        bursts.write([burst(version=3)], [], [gone])
        bursts.write([burst(version=2)], [one], [edited])  # by who had slept meanwhile
    assert [cell for cell in cells(cluster) if b"words of bob" in cell] == []
    assert len([cell for cell in cells(cluster) if b"words of eve" in cell]) == 1
    retractions = CassandraRetractions(cluster)
    found = retractions.read([*retractions.along([tweet_trail(one.mention.author, one.mention.tweet)])])
    assert sorted(found.values(), key=lambda each: each.event) == [gone.mention, other.mention]
