"""Devices on Cassandra, where a word is several statements: cut off, or overtaken, at any of them nobody has two."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from notifier.adapters.cassandra import CassandraDevices, Cluster
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Member
from notifier.domain.push.device import KEPT, Device, DeviceWord, FirebaseToken, gone
from tests.support.fakes.clock import START, ManualClock
from tests.support.lossy_cassandra import LOST, ON_ENGINES, Losing, clock, cluster, made

__all__ = ["clock", "cluster", "made"]

pytestmark = ON_ENGINES

ADA, BEA = Member(7), Member(400_005)
STATEMENTS = [
    "INSERT INTO device_holders",
    "SELECT device, member, platform, gone",
    "DELETE FROM devices",
    "INSERT INTO devices",
    "DELETE FROM device_holders",
]
"""In the order in which a word of a device that somebody else has takes effect."""


@pytest.fixture(autouse=True)
def nothing_was_deleted(cluster: Cluster) -> None:
    """Before this test: a table that only holds deletions looks empty, and they would count."""
    cluster.execute("TRUNCATE devices")


def registered(member: Member, second: int = 1, number: int = 0) -> Device:
    at = START + timedelta(seconds=second)
    return Device(member=member, address=FirebaseToken(token=f"{number:040}"), registered_at=at)


def held(cluster: Cluster, clock: ManualClock) -> dict[Member, Sequence[Device]]:
    return dict(CassandraDevices(cluster, clock).of([ADA, BEA]))


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("at", STATEMENTS)
def test_cut_off_anywhere_a_device_is_never_two_people_s_and_moves_when_it_is_said_again(
    cluster: Cluster, clock: ManualClock, at: str, done: bool
) -> None:
    CassandraDevices(cluster, clock).write([registered(ADA, 1)])
    with pytest.raises(StoreUnavailable):
        CassandraDevices(Losing(cluster, LOST[0], done=done, at=at), clock).write([registered(BEA, 2)])
    assert len(held(cluster, clock)) <= 1
    CassandraDevices(cluster, clock).write([registered(BEA, 2)])
    assert held(cluster, clock) == {BEA: [registered(BEA, 2)]}


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("at", STATEMENTS[:4])
def test_of_two_who_register_it_side_by_side_the_later_has_it_alone(
    cluster: Cluster, clock: ManualClock, at: str, first: int, second: int
) -> None:
    """All that one does happens between two statements of the other; which goes on behind it, and isn't told."""
    CassandraDevices(cluster, clock).write([registered(Member(9), 0)])

    def other() -> None:
        CassandraDevices(cluster, clock).write([registered(BEA, second)])

    losing = Losing(cluster, LOST[0], done=True, at=at, meanwhile=other)
    with pytest.raises(StoreUnavailable):
        CassandraDevices(losing, clock).write([registered(ADA, first)])
    CassandraDevices(cluster, clock).write([registered(ADA, first)])
    last = registered(ADA, first) if first > second else registered(BEA, second)
    assert held(cluster, clock) == {last.member: [last]}


def test_who_had_it_once_is_kept_nowhere(cluster: Cluster, clock: ManualClock) -> None:
    """Or each registration of a device would cost as much as all before it together."""
    devices = CassandraDevices(cluster, clock)
    words: list[DeviceWord] = [registered(Member(n), n) for n in range(20)]
    for word in words:
        devices.write([word])
    assert [row.member for row in cluster.execute("SELECT member FROM device_holders")] == [19]
    assert [row.member for row in cluster.execute("SELECT member FROM devices")] == [19]
    devices.write([gone(registered(Member(19), 19))])
    assert [row.gone for row in cluster.execute("SELECT gone FROM device_holders")] == [True]
    assert cluster.execute("SELECT member FROM devices") == []


def test_a_registration_lives_for_what_is_left_of_its_time(cluster: Cluster, clock: ManualClock) -> None:
    clock.advance(timedelta(days=30))
    CassandraDevices(cluster, clock).write([registered(ADA, 0)])
    left = (KEPT - timedelta(days=30)) // timedelta(seconds=1)
    for table, column in (("devices", "told"), ("device_holders", "gone")):
        [[life]] = cluster.execute(f"SELECT TTL({column}) FROM {table}")
        assert left - 60 <= life <= left
