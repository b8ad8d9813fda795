"""Devices on Cassandra: interrupted or concurrent registrations never give one to two users."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from notifier.adapters.cassandra import CassandraDevices, Cluster
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member
from notifier.domain.push.device import DEVICE_KEPT_FOR, Device, DeviceUpdate, FirebaseToken, removal_of
from tests.support.cassandra_keyspace import ON_ENGINES, clock, cluster, shared_cluster
from tests.support.fakes.clock_and_nonces import START, ManualClock
from tests.support.lossy_cassandra import LOST, LossyCluster

__all__ = ["clock", "cluster", "shared_cluster"]

pytestmark = ON_ENGINES

ADA, BEA = Member(7), Member(400_005)
STATEMENTS = [
    "INSERT INTO device_owners",
    "SELECT device, member, platform, is_removed",
    "DELETE FROM devices",
    "INSERT INTO devices",
    "DELETE FROM device_owners",
]
"""In the order in which a registration of another user's device takes effect."""


@pytest.fixture(autouse=True)
def without_tombstones(cluster: Cluster) -> None:
    """Remove the tombstones of earlier tests: a table with deletions alone looks empty, and they would count."""
    cluster.execute("TRUNCATE devices")


def device(member: Member, second: int = 1, number: int = 0) -> Device:
    at = START + timedelta(seconds=second)
    return Device(member=member, address=FirebaseToken(token=f"{number:040}"), registered_at=at)


def devices_of_both(cluster: Cluster, clock: ManualClock) -> dict[Member, Sequence[Device]]:
    return dict(CassandraDevices(cluster, clock).by_member([ADA, BEA]))


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_interrupted_registration_completes_on_retry(
    cluster: Cluster, clock: ManualClock, statement: str, done: bool
) -> None:
    CassandraDevices(cluster, clock).write([device(ADA, 1)])
    with pytest.raises(StoreUnavailable):
        CassandraDevices(LossyCluster(cluster, LOST[0], done=done, at=statement), clock).write([device(BEA, 2)])
    assert len(devices_of_both(cluster, clock)) <= 1
    CassandraDevices(cluster, clock).write([device(BEA, 2)])
    assert devices_of_both(cluster, clock) == {BEA: [device(BEA, 2)]}


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("statement", STATEMENTS[:4])
def test_later_of_two_concurrent_registrations_wins(
    cluster: Cluster, clock: ManualClock, statement: str, first: int, second: int
) -> None:
    """The whole second registration happens between two statements of the first, which continues without knowing."""
    CassandraDevices(cluster, clock).write([device(Member(9), 0)])

    def register_concurrently() -> None:
        CassandraDevices(cluster, clock).write([device(BEA, second)])

    lossy = LossyCluster(cluster, LOST[0], done=True, at=statement, meanwhile=register_concurrently)
    with pytest.raises(StoreUnavailable):
        CassandraDevices(lossy, clock).write([device(ADA, first)])
    CassandraDevices(cluster, clock).write([device(ADA, first)])
    last = device(ADA, first) if first > second else device(BEA, second)
    assert devices_of_both(cluster, clock) == {last.member: [last]}


def test_former_owners_of_device_are_not_stored(cluster: Cluster, clock: ManualClock) -> None:
    """Otherwise each registration of a device would cost as much as all earlier ones together."""
    devices = CassandraDevices(cluster, clock)
    registrations: list[DeviceUpdate] = [device(Member(n), n) for n in range(20)]
    for registration in registrations:
        devices.write([registration])
    assert [row.member for row in cluster.execute("SELECT member FROM device_owners")] == [19]
    assert [row.member for row in cluster.execute("SELECT member FROM devices")] == [19]
    devices.write([removal_of(device(Member(19), 19))])
    assert [row.is_removed for row in cluster.execute("SELECT is_removed FROM device_owners")] == [True]
    assert cluster.execute("SELECT member FROM devices") == []


def test_registration_ttl_is_its_remaining_lifetime(cluster: Cluster, clock: ManualClock) -> None:
    clock.advance(timedelta(days=30))
    CassandraDevices(cluster, clock).write([device(ADA, 0)])
    remaining = (DEVICE_KEPT_FOR - timedelta(days=30)) // timedelta(seconds=1)
    for table, column in (("devices", "registration"), ("device_owners", "is_removed")):
        [[ttl]] = cluster.execute(f"SELECT TTL({column}) FROM {table}")
        assert remaining - 60 <= ttl <= remaining
