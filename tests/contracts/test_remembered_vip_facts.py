"""VIP facts that one process stores for the others, on every backend."""

from collections.abc import Collection

import pytest

from notifier.adapters.redis.viewer_versions_and_burst_stream import viewer_key
from notifier.domain.ids import UserId
from notifier.ports.inbox_cache_freshness import (
    REMEMBERED_VIEWER_TTL,
    RememberedViewer,
    VersionLookup,
    ViewerVersionReader,
)
from tests.contracts.redis_garbage import STRINGS, replacements
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.contracts.viewer_version_backends import Versions, on_valkey, versions
from tests.contracts.vip_viewer_facts import KIM, REMEMBERED

__all__ = ["valkey", "valkey_server", "versions"]

LEE = UserId("lee")


def recall(versions: Versions, *users: UserId) -> VersionLookup:
    return versions.with_reader(lambda reader: reader.look_up((), None, users))


def remember(versions: Versions) -> None:
    async def remember_viewer(reader: ViewerVersionReader) -> VersionLookup:
        await reader.remember(REMEMBERED)
        return VersionLookup()

    versions.with_reader(remember_viewer)


def test_remembered_viewer_is_returned_for_its_user(versions: Versions) -> None:
    remember(versions)
    [viewer] = recall(versions, KIM, LEE).remembered.values()
    assert _comparable(viewer) == _comparable(REMEMBERED)
    assert recall(versions).remembered == {}


def _comparable(remembered: RememberedViewer) -> tuple[object, ...]:
    viewer = remembered.viewer
    blocked: Collection[UserId] = {*viewer.blocked}
    facts = (viewer.user, viewer.follows, blocked, viewer.volume, viewer.marks, viewer.account_preferences)
    return (*facts, remembered.member, remembered.versions, remembered.read_at)


def test_wiped_cache_has_no_remembered_viewers(versions: Versions) -> None:
    remember(versions)
    versions.wipe()
    assert recall(versions, KIM).remembered == {}


def test_remembered_viewer_expires(valkey: Valkey) -> None:
    remember(on_valkey(valkey))
    ttl_ms = valkey.client.pttl(viewer_key(KIM))
    assert 0 < ttl_ms <= REMEMBERED_VIEWER_TTL.total_seconds() * 1_000


@pytest.mark.parametrize("garbage", STRINGS)
def test_garbage_counts_as_absent(valkey: Valkey, garbage: str) -> None:
    versions = on_valkey(valkey)
    valkey.client.set(viewer_key(KIM), STRINGS[garbage])
    assert recall(versions, KIM).remembered == {}
    remember(versions)
    assert recall(versions, KIM).remembered.keys() == {KIM}


def test_key_of_wrong_type_counts_as_absent(valkey: Valkey) -> None:
    versions = on_valkey(valkey)
    for _, garble in replacements(valkey.client, viewer_key(KIM)):
        garble()
        assert recall(versions, KIM).remembered == {}
        remember(versions)
        assert recall(versions, KIM).remembered.keys() == {KIM}


def test_facts_of_another_user_count_as_garbage(valkey: Valkey) -> None:
    versions = on_valkey(valkey)
    remember(versions)
    valkey.client.copy(viewer_key(KIM), viewer_key(LEE))
    assert recall(versions, KIM, LEE).remembered.keys() == {KIM}
