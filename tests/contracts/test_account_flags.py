"""Account flags on every backend: the highest sequence wins, regardless of arrival order."""

from itertools import permutations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.account_flags import Flag, FlagRow
from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.ids import Member
from notifier.ports.user_directory_and_account_flags import AccountFlags
from tests.contracts.memory_and_sqlite_backends import Backend

ADA, BO = Member(7), Member(3 * SHARD_MEMBERS + 5)


def flag_change(member: Member = ADA, sequence: int = 1, *, on: bool = True, flag: Flag = Flag.VIP) -> FlagRow:
    return FlagRow(flag=flag, member=member, is_set=on, sequence=sequence)


def vips(flags: AccountFlags, shard: int = 0) -> list[Member]:
    return members(flags.members(Flag.VIP, shard), shard)


def test_unknown_account_has_no_flags(backend: Backend) -> None:
    assert backend.flags.read_current([(Flag.VIP, ADA), (Flag.DELETED, BO)]) == {}
    assert vips(backend.flags) == []


def test_flags_of_an_account_are_independent(backend: Backend) -> None:
    vip, verified = flag_change(), flag_change(flag=Flag.VERIFIED, on=False, sequence=4)
    backend.flags.write([vip, verified])
    places = [vip.key, verified.key, (Flag.DELETED, ADA)]
    assert backend.flags.read_current(places) == {vip.key: vip, verified.key: verified}


def test_imported_flag_applies_only_without_other_changes(backend: Backend) -> None:
    backend.flags.write([flag_change(BO, 0), flag_change(on=False)])
    backend.flags.write([flag_change(sequence=0)])
    assert (vips(backend.flags), vips(backend.flags, 3)) == ([], [BO])


def test_members_of_flag_are_returned_by_shard(backend: Backend) -> None:
    other_changes = [
        flag_change(Member(SHARD_MEMBERS - 1)),
        flag_change(Member(9), on=False),
        flag_change(Member(11), flag=Flag.VERIFIED),
    ]
    backend.flags.write([flag_change(), flag_change(BO), *other_changes])
    assert vips(backend.flags) == [ADA, SHARD_MEMBERS - 1]
    assert vips(backend.flags, 1) == []
    assert vips(backend.flags, 3) == [BO]


def test_highest_sequence_wins_in_any_order(backend: Backend) -> None:
    changes = [flag_change(sequence=n, on=on) for n, on in ((1, True), (2, False), (3, True))]
    for n, order in enumerate(permutations(changes)):
        member = Member(100 + n)
        for change in order:
            backend.flags.write([flag_change(member, change.sequence, on=change.is_set)])
        assert backend.flags.read_current([(Flag.VIP, member)]) == {(Flag.VIP, member): flag_change(member, 3)}


def test_set_flag_wins_on_equal_sequence(backend: Backend) -> None:
    for n, order in enumerate(permutations([True, False])):
        member = Member(200 + n)
        for on in order:
            backend.flags.write([flag_change(member, 5, on=on)])
        assert backend.flags.read_current([(Flag.VIP, member)])[Flag.VIP, member].is_set


def test_import_does_not_override_earlier_changes(backend: Backend) -> None:
    backend.flags.write([flag_change(sequence=1, on=False)])
    backend.flags.write([flag_change(sequence=0), flag_change(BO, 0)])
    assert (vips(backend.flags), vips(backend.flags, 3)) == ([], [BO])


def test_empty_write_changes_nothing(backend: Backend) -> None:
    backend.flags.write([])
    assert backend.flags.read_current([]) == {}


def test_many_flags_are_written_at_once(backend: Backend) -> None:
    backend.flags.write(flag_change(Member(n * 7)) for n in range(10_000))
    assert vips(backend.flags) == list(range(0, 70_000, 7))


CHANGES = st.tuples(st.sampled_from(Flag), st.integers(0, 3), st.integers(0, 4), st.booleans())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(CHANGES, max_size=6), max_size=6), st.integers(0, 10**9))
def test_store_matches_table_of_highest_sequences(backend: Backend, writes: list[list[tuple]], base: int) -> None:  # type: ignore[type-arg] # of CHANGES
    """Each example uses members of its own, because the store is not emptied between examples."""
    first = (10**7 + base * 8) // SHARD_MEMBERS * SHARD_MEMBERS
    highest: dict[tuple[Flag, int], tuple[int, bool]] = {}
    start = backend.flags.read_current([(flag, Member(first + n)) for flag in Flag for n in range(4)])
    highest = {(flag, member - first): flagged.rank for (flag, member), flagged in start.items()}
    for changes in writes:
        backend.flags.write(
            flag_change(Member(first + n), sequence, on=on, flag=flag) for flag, n, sequence, on in changes
        )
        for flag, n, sequence, on in changes:
            highest[flag, n] = max(highest.get((flag, n), (sequence, on)), (sequence, on))
    current = backend.flags.read_current([(flag, Member(first + n)) for flag in Flag for n in range(4)])
    assert {(flag, member - first): flagged.rank for (flag, member), flagged in current.items()} == highest
    for flag in Flag:
        on = sorted(first + n for (flag_, n), (_, is_on) in highest.items() if flag_ is flag and is_on)
        assert members(backend.flags.members(flag, first // SHARD_MEMBERS), first // SHARD_MEMBERS) == on
