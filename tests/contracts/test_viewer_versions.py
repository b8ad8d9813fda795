"""Versions of viewers' facts, on every backend: equal versions prove that nothing began to change in between."""

import asyncio

from notifier.domain.ids import Member
from notifier.ports.inbox_versions import (
    EVERYBODY,
    MOST_SCOPES,
    InboxVersions,
    Scope,
    VersionLook,
    member_scope,
    scopes_of,
)
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.contracts.version_backends import Versions, reader_of, versions

__all__ = ["valkey", "valkey_server", "versions"]

ADA, BO = member_scope(Member(7)), member_scope(Member(200_000))


def test_scope_without_version_is_left_out(versions: Versions) -> None:
    found = versions.look([ADA])
    assert ADA not in found.versions
    assert ADA not in found.changing


def test_planted_version_is_returned_by_every_look(versions: Versions) -> None:
    assert versions.plant([ADA, BO, EVERYBODY], "v1").versions == dict.fromkeys([ADA, BO, EVERYBODY], "v1")
    assert versions.look([ADA, BO, EVERYBODY]).versions == dict.fromkeys([ADA, BO, EVERYBODY], "v1")


def test_first_planted_version_stays(versions: Versions) -> None:
    versions.plant([ADA], "v1")
    assert versions.plant([ADA], "v2").versions == {ADA: "v1"}


def test_change_takes_version_away_from_its_beginning(versions: Versions) -> None:
    versions.plant([ADA, BO], "v1")
    versions.writer.begin([ADA], "c1")
    found = versions.look([ADA, BO])
    assert found.versions == {BO: "v1"}
    assert set(found.changing) == {ADA}


def test_nothing_is_planted_while_scope_changes(versions: Versions) -> None:
    versions.writer.begin([ADA], "c1")
    found = versions.plant([ADA], "v1")
    assert found.versions == {}
    assert set(found.changing) == {ADA}


def test_old_version_never_returns_after_change(versions: Versions) -> None:
    versions.plant([ADA], "v1")
    versions.change([ADA])
    assert versions.look([ADA]).versions == {}
    assert versions.plant([ADA], "v2").versions == {ADA: "v2"}


def test_scope_changes_until_last_writer_finishes(versions: Versions) -> None:
    versions.writer.begin([ADA], "c1")
    versions.writer.begin([ADA], "c2")
    versions.writer.finish([ADA], "c1")
    assert set(versions.look([ADA]).changing) == {ADA}
    versions.writer.finish([ADA], "c2")
    assert not versions.look([ADA]).changing


def test_change_may_begin_and_finish_twice(versions: Versions) -> None:
    versions.writer.begin([ADA], "c1")
    versions.writer.begin([ADA], "c1")
    versions.writer.finish([ADA], "c1")
    versions.writer.finish([ADA], "c1")
    assert versions.plant([ADA], "v1").versions == {ADA: "v1"}


def test_finish_takes_version_that_was_planted_after_wipe(versions: Versions) -> None:
    """A reader may have planted it, and read what the writer was about to replace."""
    versions.writer.begin([ADA], "c1")
    versions.wipe()
    versions.plant([ADA], "v1")
    versions.writer.finish([ADA], "c1")
    assert versions.look([ADA]).versions == {}


def test_unfinished_change_expires(versions: Versions) -> None:
    versions.plant([ADA], "v1")
    versions.writer.begin([ADA], "c1")
    versions.expire(ADA)
    found = versions.look([ADA])
    assert (found.versions, set(found.changing)) == ({}, set())


def test_reader_changes_scopes_as_writers_do(versions: Versions) -> None:
    versions.plant([ADA], "v1")

    async def begin_and_look(reader: InboxVersions) -> VersionLook:
        await reader.begin([ADA], "c1")
        found = await reader.look([ADA], None)
        await reader.finish([ADA], "c1")
        return found

    assert set(versions.with_reader(begin_and_look).changing) == {ADA}
    assert versions.look([ADA]).versions == {}


def test_many_members_are_one_scope() -> None:
    few = [Member(number) for number in range(MOST_SCOPES)]
    assert scopes_of(few) == [member_scope(member) for member in few]
    assert scopes_of([*few, Member(MOST_SCOPES)]) == [EVERYBODY]


def test_no_scopes_are_no_error(versions: Versions) -> None:
    versions.writer.begin([], "c1")
    versions.writer.finish([], "c1")
    assert versions.look([Scope("m1")]).versions == {}


def test_connection_that_the_server_closed_meanwhile_is_made_anew(valkey: Valkey) -> None:
    """As servers and balancers do with connections that were idle. No change and no look-up fails by it."""

    async def closed_in_between() -> tuple[VersionLook, VersionLook]:
        async with reader_of(valkey) as reader:
            before = await reader.look([ADA], None)
            await reader.begin([ADA], "c0")
            valkey.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")  # type: ignore[no-untyped-call] # redis-py's own
            await asyncio.sleep(0.1)  # until the end of the stream has come in
            await reader.begin([ADA], "c1")
            return before, await reader.look([ADA], None)

    before, after = asyncio.run(closed_in_between())
    assert after.changing == {ADA}
    assert after.connection == before.connection + 1
