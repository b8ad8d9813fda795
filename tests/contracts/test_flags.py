"""The flags of accounts: what was said last of each stands, in whatever order it comes; on every backend."""

from itertools import permutations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notifier.domain.audience.account_flags import Flag, Flagged
from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.ids import Member
from notifier.ports.directory import Flags
from tests.contracts.backends import Backend

ADA, BO = Member(7), Member(3 * SHARD_MEMBERS + 5)


def said(member: Member = ADA, sequence: int = 1, *, on: bool = True, flag: Flag = Flag.VIP) -> Flagged:
    return Flagged(flag=flag, member=member, on=on, sequence=sequence)


def vips(flags: Flags, shard: int = 0) -> list[Member]:
    return members(flags.members(Flag.VIP, shard), shard)


def test_of_whom_nothing_was_said_nothing_stands(backend: Backend) -> None:
    assert backend.flags.standing([(Flag.VIP, ADA), (Flag.DELETED, BO)]) == {}
    assert vips(backend.flags) == []


def test_each_flag_of_an_account_stands_for_itself(backend: Backend) -> None:
    vip, verified = said(), said(flag=Flag.VERIFIED, on=False, sequence=4)
    backend.flags.write([vip, verified])
    places = [vip.place, verified.place, (Flag.DELETED, ADA)]
    assert backend.flags.standing(places) == {vip.place: vip, verified.place: verified}


def test_what_an_import_says_is_before_all_that_is_said_and_stands_where_nothing_is(backend: Backend) -> None:
    backend.flags.write([said(BO, 0), said(on=False)])
    backend.flags.write([said(sequence=0)])
    assert (vips(backend.flags), vips(backend.flags, 3)) == ([], [BO])


def test_the_members_of_a_flag_are_told_by_shard(backend: Backend) -> None:
    others = [said(Member(SHARD_MEMBERS - 1)), said(Member(9), on=False), said(Member(11), flag=Flag.VERIFIED)]
    backend.flags.write([said(), said(BO), *others])
    assert vips(backend.flags) == [ADA, SHARD_MEMBERS - 1]
    assert vips(backend.flags, 1) == []
    assert vips(backend.flags, 3) == [BO]


def test_the_highest_sequence_stands_in_whatever_order_they_come(backend: Backend) -> None:
    words = [said(sequence=n, on=on) for n, on in ((1, True), (2, False), (3, True))]
    for n, order in enumerate(permutations(words)):
        member = Member(100 + n)
        for word in order:
            backend.flags.write([said(member, word.sequence, on=word.on)])
        assert backend.flags.standing([(Flag.VIP, member)]) == {(Flag.VIP, member): said(member, 3)}


def test_of_two_with_one_sequence_the_one_that_sets_it_stands(backend: Backend) -> None:
    for n, order in enumerate(permutations([True, False])):
        member = Member(200 + n)
        for on in order:
            backend.flags.write([said(member, 5, on=on)])
        assert backend.flags.standing([(Flag.VIP, member)])[Flag.VIP, member].on


def test_an_import_is_before_all_that_was_said(backend: Backend) -> None:
    backend.flags.write([said(sequence=1, on=False)])
    backend.flags.write([said(sequence=0), said(BO, 0)])
    assert (vips(backend.flags), vips(backend.flags, 3)) == ([], [BO])


def test_an_empty_write_is_nothing(backend: Backend) -> None:
    backend.flags.write([])
    assert backend.flags.standing([]) == {}


def test_many_are_written_at_once(backend: Backend) -> None:
    backend.flags.write(said(Member(n * 7)) for n in range(10_000))
    assert vips(backend.flags) == list(range(0, 70_000, 7))


WORDS = st.tuples(st.sampled_from(Flag), st.integers(0, 3), st.integers(0, 4), st.booleans())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(WORDS, max_size=6), max_size=6), st.integers(0, 10**9))
def test_it_is_what_a_table_of_the_highest_is(backend: Backend, writes: list[list[tuple]], base: int) -> None:  # type: ignore[type-arg] # of WORDS
    """In places of its own: the store is not emptied between examples."""
    first = (10**7 + base * 8) // SHARD_MEMBERS * SHARD_MEMBERS
    highest: dict[tuple[Flag, int], tuple[int, bool]] = {}
    start = backend.flags.standing([(flag, Member(first + n)) for flag in Flag for n in range(4)])
    highest = {(flag, member - first): one.rank for (flag, member), one in start.items()}
    for words in writes:
        backend.flags.write(said(Member(first + n), sequence, on=on, flag=flag) for flag, n, sequence, on in words)
        for flag, n, sequence, on in words:
            highest[flag, n] = max(highest.get((flag, n), (sequence, on)), (sequence, on))
    found = backend.flags.standing([(flag, Member(first + n)) for flag in Flag for n in range(4)])
    assert {(flag, member - first): one.rank for (flag, member), one in found.items()} == highest
    for flag in Flag:
        on = sorted(first + n for (of, n), (_, is_on) in highest.items() if of is flag and is_on)
        assert members(backend.flags.members(flag, first // SHARD_MEMBERS), first // SHARD_MEMBERS) == on
