"""What the record of what was sent owes to Cassandra alone: nothing is sent by a window that may not stand."""

from dataclasses import replace

import pytest

from notifier.adapters.cassandra import CassandraSent, Cluster
from notifier.domain.audience.bitmap import from_offsets
from notifier.domain.audience.tiers import Tier
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Platform
from notifier.domain.push.send_log import Sending, Window
from tests.support.contract_examples import NOVA
from tests.support.fakes.clock import START
from tests.support.lossy_cassandra import LOST, ON_ENGINES, Losing, cluster, made

__all__ = ["cluster", "made"]

pytestmark = ON_ENGINES

SENDING = Sending(BurstKey(NOVA, 1), Tier.P1, 3, Platform.WEB)
WINDOWS = [(replace(SENDING, shard=shard), Window(n=0, at=START, people=from_offsets([shard]))) for shard in range(3)]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("lost", LOST, ids=["silence", "timeout"])
def test_without_an_answer_nobody_may_send(cluster: Cluster, lost: Exception, done: bool) -> None:
    with pytest.raises(StoreUnavailable):
        CassandraSent(Losing(cluster, lost, done=done)).intend(WINDOWS)
    found = CassandraSent(cluster).read(SENDING.burst, SENDING.platform, range(3))
    assert {sending.shard for sending in found} == ({0, 1, 2} if done else set())
    assert CassandraSent(cluster).intend(WINDOWS) == [not done] * 3


def test_windows_of_many_shards_and_a_crowd_s_are_written_in_one_call(cluster: Cluster) -> None:
    sent, crowd = CassandraSent(cluster), from_offsets(range(0, 131_072, 3))
    windows = [(replace(SENDING, shard=shard), WINDOWS[0][1]) for shard in range(130)]
    windows += [(SENDING, Window(n=n, at=START, people=crowd)) for n in (1, 2, 3)]
    assert sent.intend(windows[5:7]) == [True, True]
    assert [place for place, won in enumerate(sent.intend(windows)) if not won] == [5, 6]
    sent.close([(sending, replace(window, missed=())) for sending, window in windows])
    found = sent.read(SENDING.burst, SENDING.platform, range(130))
    assert [len(found[sending]) for sending, _ in windows[:130]] == [
        4 if shard == SENDING.shard else 1 for shard in range(130)
    ]
    assert all(window.missed == () for some in found.values() for window in some)


def test_what_was_missed_of_a_window_that_is_over_is_no_window(cluster: Cluster) -> None:
    sent = CassandraSent(cluster)
    sent.close([(SENDING, replace(WINDOWS[0][1], missed=()))])
    assert sent.read(SENDING.burst, SENDING.platform, [SENDING.shard]) == {}
