"""The directory: outside ids and member numbers, both ways, one by one or by range."""

from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.ids import Member, UserId
from notifier.ports.directory import DirectoryEntry
from tests.contracts.backends import Backend

NOVA = DirectoryEntry(user=UserId("nova"), member=Member(7), verified=True, deleted=True)
MANY = IdRange(prefix="u", first=10, count=5, member=Member(1000))


def account(backend: Backend, user: str) -> DirectoryEntry | None:
    return backend.directory.accounts([UserId(user)]).get(UserId(user))


def test_an_account_is_found_both_ways_as_it_was_enrolled(backend: Backend) -> None:
    backend.directory.enrol([NOVA])
    assert account(backend, "nova") == NOVA
    assert backend.directory.users([Member(7)]) == {Member(7): "nova"}


def test_those_who_do_not_exist_are_left_out(backend: Backend) -> None:
    backend.directory.enrol([NOVA])
    backend.directory.enrol_range(MANY)
    asked = [UserId("nova"), UserId("u12"), UserId("ada"), UserId("")]
    assert set(backend.directory.accounts(asked)) == {"nova", "u12"}
    assert backend.directory.users([Member(7), Member(8), Member(1002), Member(1005), Member(999)]) == {
        Member(7): "nova",
        Member(1002): "u12",
    }


def test_enrolling_again_replaces_what_was_known(backend: Backend) -> None:
    backend.directory.enrol([NOVA])
    better = DirectoryEntry(user=UserId("nova"), member=Member(7))
    backend.directory.enrol([better])
    assert account(backend, "nova") == better


def test_a_range_maps_its_ids_in_order_and_ends_where_it_ends(backend: Backend) -> None:
    backend.directory.enrol_range(MANY)
    found = {user: account(backend, user) for user in ("u9", "u10", "u14", "u15")}
    assert {user: a and a.member for user, a in found.items()} == {"u9": None, "u10": 1000, "u14": 1004, "u15": None}
    assert backend.directory.users([Member(1000), Member(1004)]) == {Member(1000): "u10", Member(1004): "u14"}


def test_only_the_plain_way_to_write_a_number_is_an_id_of_a_range(backend: Backend) -> None:
    backend.directory.enrol_range(IdRange(prefix="u", first=0, count=100, member=Member(0)))
    strange = ["u007", "u+7", "u 7", "u7 ", "u٧", "u", "7", "v7", "u-7", "u" + "9" * 40]
    assert backend.directory.accounts([UserId(user) for user in strange]) == {}
    assert account(backend, "u0") == DirectoryEntry(user=UserId("u0"), member=Member(0))


def test_the_ids_of_a_range_may_be_numbers_and_nothing_else(backend: Backend) -> None:
    backend.directory.enrol_range(IdRange(prefix="", first=0, count=100, member=Member(300)))
    assert account(backend, "7") == DirectoryEntry(user=UserId("7"), member=Member(307))
    assert account(backend, "u7") is None
    assert backend.directory.users([Member(307)]) == {Member(307): "7"}


def test_who_is_enrolled_twice_at_once_is_as_the_last_says(backend: Backend) -> None:
    backend.directory.enrol([NOVA, DirectoryEntry(user=UserId("nova"), member=Member(7))])
    assert account(backend, "nova") == DirectoryEntry(user=UserId("nova"), member=Member(7))


def test_a_single_account_overrides_its_range(backend: Backend) -> None:
    backend.directory.enrol_range(MANY)
    gone = DirectoryEntry(user=UserId("u11"), member=Member(1001), deleted=True)
    backend.directory.enrol([gone])
    assert account(backend, "u11") == gone
    assert account(backend, "u12") == DirectoryEntry(user=UserId("u12"), member=Member(1002))


def test_ranges_with_the_same_prefix_stand_side_by_side(backend: Backend) -> None:
    backend.directory.enrol_range(MANY)
    backend.directory.enrol_range(IdRange(prefix="u", first=100, count=5, member=Member(5000)))
    found = backend.directory.accounts([UserId("u14"), UserId("u50"), UserId("u100")])
    assert {user: account.member for user, account in found.items()} == {"u14": 1004, "u100": 5000}
    assert backend.directory.users([Member(1004), Member(3000), Member(5000)]) == {
        Member(1004): "u14",
        Member(5000): "u100",
    }


def test_the_range_that_an_id_is_in_is_told(backend: Backend) -> None:
    backend.directory.enrol_range(MANY)
    other = IdRange(prefix="", first=7, count=3, member=Member(9_000))
    backend.directory.enrol_range(other)
    assert backend.directory.range_of(UserId(f"u{MANY.last}")) == MANY
    assert backend.directory.range_of(UserId("9")) == other
    assert [backend.directory.range_of(UserId(user)) for user in ("", "u", f"u{MANY.last + 1}", "6", "10")] == [
        None
    ] * 5
