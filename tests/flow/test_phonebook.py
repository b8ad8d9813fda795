"""The phone book: what an app says of its device counts at once, and takes it from whoever had it."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.errors import LogUnavailable, StoreUnavailable
from notifier.domain.push.device import (
    MOST_DEVICES,
    AppleToken,
    DeviceId,
    FirebaseInstallation,
    FirebaseToken,
    device_id,
)
from notifier.ports.event_log import Record
from tests.flow.device_world import PEOPLE, DeviceWorld, phone
from tests.flow.graph import Fuse

ADA = PEOPLE["ada"]


def test_registered_again_a_device_is_the_same_one_as_it_is_now() -> None:
    exchange = DeviceWorld()
    exchange.register("ada")
    exchange.clock.advance(timedelta(days=1))
    again = exchange.registry().register(ADA, phone(0), locale="pt-BR", time_zone="Asia/Tokyo")
    assert exchange.registry().of(ADA) == [again]
    assert again.registered_at == exchange.clock.now()


def test_the_last_that_was_registered_is_told_first() -> None:
    exchange = DeviceWorld()
    devices = [exchange.register("ada", n) for n in range(3)]
    assert exchange.registry().of(ADA) == devices[::-1]


def test_who_logs_in_on_the_phone_of_another_has_it_alone() -> None:
    exchange = DeviceWorld()
    exchange.register("ada")
    exchange.register("cleo")
    assert exchange.device_counts() == {"cleo": 1}
    exchange.index_all()
    assert exchange.alertable() == {"cleo"}


def test_who_isn_t_its_holder_any_more_takes_nothing_away() -> None:
    exchange = DeviceWorld()
    device = exchange.register("ada")
    exchange.register("bea")
    assert not exchange.unregister("ada", device)
    assert exchange.device_counts() == {"bea": 1}
    assert exchange.unregister("bea", device)
    assert not exchange.unregister("bea", device)
    assert not exchange.registry().unregister(PEOPLE["bea"], DeviceId("0" * 32))
    assert exchange.device_counts() == {}


def test_what_was_unregistered_is_registered_again_also_by_a_clock_that_is_behind() -> None:
    exchange = DeviceWorld()
    device = exchange.register("ada")
    exchange.unregister("ada", device)
    exchange.clock.advance(-timedelta(seconds=30))
    exchange.register("ada")
    assert exchange.device_counts() == {"ada": 1}


def test_ten_thousand_registrations_on_one_account_leave_twenty() -> None:
    exchange = DeviceWorld()
    devices = [exchange.register("ada", n) for n in range(10_000)]
    assert exchange.registry().of(ADA) == devices[: -MOST_DEVICES - 1 : -1]


def test_a_device_that_is_refreshed_is_not_the_one_too_many() -> None:
    exchange = DeviceWorld()
    first = [exchange.register("ada", n) for n in range(MOST_DEVICES)]
    exchange.register("ada", 0)
    exchange.register("ada", 99)
    left = {device.id for device in exchange.registry().of(ADA)}
    assert (first[0].id in left, first[1].id in left, len(left)) == (True, False, MOST_DEVICES)


def test_a_fid_that_replaces_a_token_takes_it_away_and_else_both_live_side_by_side() -> None:
    exchange, token = DeviceWorld(), FirebaseToken(token="t" * 140)
    fid = FirebaseInstallation(fid="dIsVQ2QVRT-TW7L6VfeAMh")
    exchange.register("ada", token)
    exchange.register("ada", fid)
    assert exchange.device_counts() == {"ada": 2}
    exchange.register("ada", fid, replaces=token)
    assert [device.address for device in exchange.registry().of(ADA)] == [fid]
    exchange.register("ada", fid, replaces=token)
    exchange.index_all()
    assert (exchange.device_counts(), exchange.alertable()) == ({"ada": 1}, {"ada"})


def test_nobody_replaces_what_is_another_s() -> None:
    exchange, token = DeviceWorld(), FirebaseToken(token="t" * 140)
    exchange.register("bea", token)
    exchange.register("ada", FirebaseInstallation(fid="dIsVQ2QVRT-TW7L6VfeAMh"), replaces=token)
    assert exchange.device_counts() == {"ada": 1, "bea": 1}


def test_drop_token_respects_registration() -> None:
    """A provider says since when nobody is there: whoever has registered since then stays, whoever it is."""
    exchange = DeviceWorld()
    sent_to = exchange.register("ada")
    at = exchange.clock.now()
    again = exchange.register("ada")
    assert not exchange.registry().drop({sent_to: at})
    assert not exchange.registry().drop({sent_to: None})
    assert not exchange.registry().drop({again: at})
    assert exchange.device_counts() == {"ada": 1}
    assert exchange.registry().drop({again: None})
    assert not exchange.registry().drop({again: None})
    exchange.index_all()
    assert (exchange.device_counts(), exchange.alertable()) == ({}, set())


def test_a_drop_of_a_device_that_moved_before_it_is_a_drop_of_whose_it_is() -> None:
    exchange = DeviceWorld()
    sent_to = exchange.register("ada")
    exchange.register("cleo")
    exchange.index_all()
    exchange.clock.advance(timedelta(seconds=1))
    assert exchange.registry().drop({sent_to: exchange.clock.now()})
    exchange.index_all()
    assert (exchange.device_counts(), exchange.alertable()) == ({}, set())


def test_a_drop_of_a_device_that_moved_behind_it_changes_nothing() -> None:
    exchange = DeviceWorld()
    sent_to = exchange.register("ada")
    at = exchange.clock.now()
    exchange.register("cleo")
    assert not exchange.registry().drop({sent_to: at})
    assert exchange.device_counts() == {"cleo": 1}


def test_a_token_of_the_wrong_environment_is_a_device_of_its_own() -> None:
    exchange = DeviceWorld()
    production = AppleToken(token="ab" * 32, topic="com.example.app")
    exchange.register("ada", production)
    assert not exchange.registry().unregister(ADA, DeviceId("0" * 32))
    assert [device.id for device in exchange.registry().of(ADA)] == [device_id(production)]


def test_while_the_log_is_away_nothing_is_registered() -> None:
    class Away:
        def append(self, _: list[Record]) -> None:
            raise LogUnavailable

    exchange = DeviceWorld()
    with pytest.raises(LogUnavailable):
        exchange.register("ada", book=exchange.registry(log=Away()))
    assert exchange.device_counts() == {}


@given(st.lists(st.tuples(st.sampled_from(sorted(PEOPLE)), st.integers(0, 1), st.booleans()), max_size=8), st.data())
@settings(max_examples=150, deadline=None)
def test_cut_off_anywhere_rows_and_bitmaps_agree_once_the_log_was_read(
    said: list[tuple[str, int, bool]], data: st.DataObject
) -> None:
    """Who is answered has the device, or hasn't; and the bitmaps say what the rows do, once the log was read."""
    exchange = DeviceWorld()
    for who, what, leaves in said:
        fuse = Fuse(data.draw(st.integers(0, 6)))
        exchange.clock.advance(timedelta(seconds=1))
        book = exchange.registry(devices=fuse.on(exchange.devices), log=fuse.on(exchange.log))
        try:
            if leaves:
                book.unregister(PEOPLE[who], device_id(phone(what)))
            else:
                book.register(PEOPLE[who], phone(what), locale="en", time_zone="UTC")
        except StoreUnavailable:
            continue  # nobody knows what came of it
        owner = [device.id for device in exchange.devices.of([PEOPLE[who]]).get(PEOPLE[who], ())]
        assert (device_id(phone(what)) in owner) is not leaves
    for _ in range(2):
        exchange.index_all()
        assert exchange.alertable() == set(exchange.device_counts())
