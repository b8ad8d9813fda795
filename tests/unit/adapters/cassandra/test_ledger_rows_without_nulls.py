"""Cassandra ledger rows bind no null, which would be stored as a tombstone."""

from collections.abc import Iterable, Sequence

import pytest

from notifier.adapters.cassandra import CassandraAccess, Cluster
from notifier.adapters.cassandra.stores.ledger import LedgerRows
from notifier.domain.delivery.ledger import Fact, LedgerEntry
from notifier.domain.ids import BurstKey
from tests.support.contract_examples import NOVA, slice_of
from tests.support.fakes.clock_and_nonces import START


class RecordingCluster(Cluster):
    """Records the bound values, and rejects each group so that its rows are written one by one, too."""

    def __init__(self) -> None:
        super().__init__(CassandraAccess(hosts=[]))
        self.bound: list[object] = []

    def compare_and_set_groups(self, groups: Iterable[Sequence[tuple[str, Sequence[object]]]]) -> list[bool | None]:
        written: list[bool | None] = []
        for group in groups:
            for _, values in group:
                self.bound.extend(values)
            written.append(False)
        return written

    def compare_and_set(self, statement: str, values: Sequence[object]) -> bool:
        self.bound.extend(values)
        return False


@pytest.mark.parametrize("fact", list(Fact))
@pytest.mark.parametrize("alert_count", [None, 0])
def test_ledger_entry_binds_no_null(fact: Fact, alert_count: int | None) -> None:
    cluster = RecordingCluster()
    LedgerRows(cluster).record(
        [LedgerEntry(slice=slice_of(BurstKey(NOVA, 1)), fact=fact, number=2, at=START, alert_count=alert_count)]
    )
    assert cluster.bound
    assert None not in cluster.bound
