"""Facts of VIPs that one process leaves for the others, on every backend."""

from collections.abc import Collection

import pytest

from notifier.adapters.redis.viewer_versions import viewer_key
from notifier.domain.ids import UserId
from notifier.ports.inbox_versions import REMEMBERED_FOR, InboxVersions, RememberedViewer, VersionLook
from tests.contracts.garbage import STRINGS, whole
from tests.contracts.remembered_viewer import KIM, REMEMBERED
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.contracts.version_backends import Versions, on_valkey, versions

__all__ = ["valkey", "valkey_server", "versions"]

LEE = UserId("lee")


def recalled(versions: Versions, *users: UserId) -> VersionLook:
    return versions.with_reader(lambda reader: reader.look((), None, users))


def remember(versions: Versions) -> None:
    async def remember_it(reader: InboxVersions) -> VersionLook:
        await reader.remember(REMEMBERED)
        return VersionLook()

    versions.with_reader(remember_it)


def test_remembered_viewer_is_returned_to_whoever_asks_for_the_user(versions: Versions) -> None:
    remember(versions)
    [found] = recalled(versions, KIM, LEE).remembered.values()
    assert _comparable(found) == _comparable(REMEMBERED)
    assert recalled(versions).remembered == {}


def _comparable(remembered: RememberedViewer) -> tuple[object, ...]:
    viewer = remembered.viewer
    blocked: Collection[UserId] = {*viewer.blocked}
    known = (viewer.user, viewer.follows, blocked, viewer.volume, viewer.marks, viewer.overall)
    return (*known, remembered.member, remembered.versions, remembered.read_at)


def test_wiped_cache_remembers_nobody(versions: Versions) -> None:
    remember(versions)
    versions.wipe()
    assert recalled(versions, KIM).remembered == {}


def test_remembered_viewer_expires(valkey: Valkey) -> None:
    remember(on_valkey(valkey))
    left = valkey.client.pttl(viewer_key(KIM))
    assert 0 < left <= REMEMBERED_FOR.total_seconds() * 1_000


@pytest.mark.parametrize("garbage", STRINGS)
def test_garbage_is_absence(valkey: Valkey, garbage: str) -> None:
    versions = on_valkey(valkey)
    valkey.client.set(viewer_key(KIM), STRINGS[garbage])
    assert recalled(versions, KIM).remembered == {}
    remember(versions)
    assert recalled(versions, KIM).remembered.keys() == {KIM}


def test_key_of_another_type_is_absence(valkey: Valkey) -> None:
    versions = on_valkey(valkey)
    for _, garble in whole(valkey.client, viewer_key(KIM)):
        garble()
        assert recalled(versions, KIM).remembered == {}
        remember(versions)
        assert recalled(versions, KIM).remembered.keys() == {KIM}


def test_facts_of_another_user_are_garbage(valkey: Valkey) -> None:
    versions = on_valkey(valkey)
    remember(versions)
    valkey.client.copy(viewer_key(KIM), viewer_key(LEE))
    assert recalled(versions, KIM, LEE).remembered.keys() == {KIM}
