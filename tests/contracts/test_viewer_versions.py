"""Viewer versions on every backend: equal versions prove that no change began in between."""

import asyncio

import pytest

from notifier.adapters.redis import persistent_and_shared_connections
from notifier.domain.ids import Member
from notifier.ports.inbox_cache_freshness import (
    ALL_MEMBERS,
    MAX_SCOPES_PER_CHANGE,
    Scope,
    VersionLookup,
    ViewerVersionReader,
    member_scope,
    scopes_of,
)
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.contracts.viewer_version_backends import Versions, reader_of, versions

__all__ = ["valkey", "valkey_server", "versions"]

ADA, BO = member_scope(Member(7)), member_scope(Member(200_000))


def test_scope_without_version_is_left_out(versions: Versions) -> None:
    result = versions.look_up([ADA])
    assert ADA not in result.versions
    assert ADA not in result.changing


def test_inserted_version_is_returned_by_every_lookup(versions: Versions) -> None:
    assert versions.insert([ADA, BO, ALL_MEMBERS], "v1").versions == dict.fromkeys([ADA, BO, ALL_MEMBERS], "v1")
    assert versions.look_up([ADA, BO, ALL_MEMBERS]).versions == dict.fromkeys([ADA, BO, ALL_MEMBERS], "v1")


def test_first_inserted_version_wins(versions: Versions) -> None:
    versions.insert([ADA], "v1")
    assert versions.insert([ADA], "v2").versions == {ADA: "v1"}


def test_change_removes_version_when_it_begins(versions: Versions) -> None:
    versions.insert([ADA, BO], "v1")
    versions.writer.begin([ADA], "c1")
    result = versions.look_up([ADA, BO])
    assert result.versions == {BO: "v1"}
    assert set(result.changing) == {ADA}


def test_no_version_is_inserted_while_scope_changes(versions: Versions) -> None:
    versions.writer.begin([ADA], "c1")
    result = versions.insert([ADA], "v1")
    assert result.versions == {}
    assert set(result.changing) == {ADA}


def test_old_version_never_returns_after_change(versions: Versions) -> None:
    versions.insert([ADA], "v1")
    versions.change([ADA])
    assert versions.look_up([ADA]).versions == {}
    assert versions.insert([ADA], "v2").versions == {ADA: "v2"}


def test_scope_changes_until_last_writer_finishes(versions: Versions) -> None:
    versions.writer.begin([ADA], "c1")
    versions.writer.begin([ADA], "c2")
    versions.writer.finish([ADA], "c1")
    assert set(versions.look_up([ADA]).changing) == {ADA}
    versions.writer.finish([ADA], "c2")
    assert not versions.look_up([ADA]).changing


def test_change_can_begin_and_finish_twice(versions: Versions) -> None:
    versions.writer.begin([ADA], "c1")
    versions.writer.begin([ADA], "c1")
    versions.writer.finish([ADA], "c1")
    versions.writer.finish([ADA], "c1")
    assert versions.insert([ADA], "v1").versions == {ADA: "v1"}


def test_finish_removes_version_inserted_after_wipe(versions: Versions) -> None:
    """A reader may have inserted the version, and read facts that the writer was about to replace."""
    versions.writer.begin([ADA], "c1")
    versions.wipe()
    versions.insert([ADA], "v1")
    versions.writer.finish([ADA], "c1")
    assert versions.look_up([ADA]).versions == {}


def test_unfinished_change_expires(versions: Versions) -> None:
    versions.insert([ADA], "v1")
    versions.writer.begin([ADA], "c1")
    versions.expire(ADA)
    result = versions.look_up([ADA])
    assert (result.versions, set(result.changing)) == ({}, set())


def test_reader_changes_scopes_as_writers_do(versions: Versions) -> None:
    versions.insert([ADA], "v1")

    async def begin_and_look(reader: ViewerVersionReader) -> VersionLookup:
        await reader.begin([ADA], "c1")
        result = await reader.look_up([ADA], None)
        await reader.finish([ADA], "c1")
        return result

    assert set(versions.with_reader(begin_and_look).changing) == {ADA}
    assert versions.look_up([ADA]).versions == {}


def test_many_members_become_one_scope() -> None:
    members_ = [Member(number) for number in range(MAX_SCOPES_PER_CHANGE)]
    assert scopes_of(members_) == [member_scope(member) for member in members_]
    assert scopes_of([*members_, Member(MAX_SCOPES_PER_CHANGE)]) == [ALL_MEMBERS]


def test_empty_scope_list_is_accepted(versions: Versions) -> None:
    versions.writer.begin([], "c1")
    versions.writer.finish([], "c1")
    assert versions.look_up([Scope("m1")]).versions == {}


def test_connection_closed_by_server_is_replaced(valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers and load balancers close idle connections. Neither a change nor a look-up may fail because of it."""
    monkeypatch.setattr(persistent_and_shared_connections, "MAX_GAP_SECONDS", 60.0)  # the machine may be busy

    async def look_after_close() -> tuple[VersionLookup, VersionLookup]:
        async with reader_of(valkey) as reader:
            before = await reader.look_up([ADA], None)
            await reader.begin([ADA], "c0")
            valkey.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # type: ignore[no-untyped-call] # redis-py's own
            await asyncio.sleep(0.1)  # until the end of the stream has arrived
            await reader.begin([ADA], "c1")
            return before, await reader.look_up([ADA], None)

    before, after = asyncio.run(look_after_close())
    assert after.changing == {ADA}
    assert after.server_state == before.server_state
