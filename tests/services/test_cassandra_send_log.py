"""The send log on Cassandra: alerts are sent only for stored batches."""

from dataclasses import replace

import pytest

from notifier.adapters.cassandra import CassandraSendLog, Cluster
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Platform
from notifier.domain.push.send_log import SendBatch, SendLogKey
from tests.support.cassandra_keyspace import ON_ENGINES, cluster, shared_cluster
from tests.support.contract_examples import NOVA
from tests.support.fakes.clock_and_nonces import START
from tests.support.lossy_cassandra import LOST, LossyCluster

__all__ = ["cluster", "shared_cluster"]

pytestmark = ON_ENGINES

SENDING = SendLogKey(BurstKey(NOVA, 1), Tier.P1, 3, Platform.WEB)
BATCHES = [
    (replace(SENDING, shard=shard), SendBatch(number=0, at=START, members=from_offsets([shard]))) for shard in range(3)
]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("error", LOST, ids=["silence", "timeout"])
def test_intent_without_answer_allows_no_sending(cluster: Cluster, error: Exception, done: bool) -> None:
    with pytest.raises(StoreUnavailable):
        CassandraSendLog(LossyCluster(cluster, error, done=done)).write_ahead(BATCHES)
    stored = CassandraSendLog(cluster).read(SENDING.burst, SENDING.platform, range(3))
    assert {sending.shard for sending in stored} == ({0, 1, 2} if done else set())
    assert CassandraSendLog(cluster).write_ahead(BATCHES) == [not done] * 3


def test_batches_of_many_shards_and_members_are_written_in_one_call(cluster: Cluster) -> None:
    sent, many_members = CassandraSendLog(cluster), from_offsets(range(0, 131_072, 3))
    batches = [(replace(SENDING, shard=shard), BATCHES[0][1]) for shard in range(130)]
    batches += [(SENDING, SendBatch(number=n, at=START, members=many_members)) for n in (1, 2, 3)]
    assert sent.write_ahead(batches[5:7]) == [True, True]
    assert [index for index, won in enumerate(sent.write_ahead(batches)) if not won] == [5, 6]
    sent.close([(sending, replace(batch, failures=())) for sending, batch in batches])
    stored = sent.read(SENDING.burst, SENDING.platform, range(130))
    assert [len(stored[sending]) for sending, _ in batches[:130]] == [
        4 if shard == SENDING.shard else 1 for shard in range(130)
    ]
    assert all(batch.failures == () for batches in stored.values() for batch in batches)


def test_outcome_without_intent_is_no_batch(cluster: Cluster) -> None:
    sent = CassandraSendLog(cluster)
    sent.close([(SENDING, replace(BATCHES[0][1], failures=()))])
    assert sent.read(SENDING.burst, SENDING.platform, [SENDING.shard]) == {}
