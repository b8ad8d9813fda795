"""The directory maps user ids to member numbers and back, singly or by range."""

from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.ids import Member, UserId
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from tests.contracts.memory_and_sqlite_backends import Backend

NOVA = DirectoryEntry(user=UserId("nova"), member=Member(7), verified=True, deleted=True)
RANGE = IdRange(prefix="u", first=10, count=5, first_member=Member(1000))


def account(backend: Backend, user: str) -> DirectoryEntry | None:
    return backend.directory.accounts([UserId(user)]).get(UserId(user))


def test_enrolled_account_is_found_by_id_and_by_member(backend: Backend) -> None:
    backend.directory.enrol([NOVA])
    assert account(backend, "nova") == NOVA
    assert backend.directory.users([Member(7)]) == {Member(7): "nova"}


def test_unknown_accounts_are_left_out(backend: Backend) -> None:
    backend.directory.enrol([NOVA])
    backend.directory.enrol_range(RANGE)
    users = [UserId("nova"), UserId("u12"), UserId("ada"), UserId("")]
    assert set(backend.directory.accounts(users)) == {"nova", "u12"}
    assert backend.directory.users([Member(7), Member(8), Member(1002), Member(1005), Member(999)]) == {
        Member(7): "nova",
        Member(1002): "u12",
    }


def test_enrolling_again_replaces_the_entry(backend: Backend) -> None:
    backend.directory.enrol([NOVA])
    changed = DirectoryEntry(user=UserId("nova"), member=Member(7))
    backend.directory.enrol([changed])
    assert account(backend, "nova") == changed


def test_range_maps_its_ids_in_order_up_to_its_end(backend: Backend) -> None:
    backend.directory.enrol_range(RANGE)
    entries = {user: account(backend, user) for user in ("u9", "u10", "u14", "u15")}
    assert {user: entry and entry.member for user, entry in entries.items()} == {
        "u9": None,
        "u10": 1000,
        "u14": 1004,
        "u15": None,
    }
    assert backend.directory.users([Member(1000), Member(1004)]) == {Member(1000): "u10", Member(1004): "u14"}


def test_malformed_numbers_are_not_ids_of_a_range(backend: Backend) -> None:
    backend.directory.enrol_range(IdRange(prefix="u", first=0, count=100, first_member=Member(0)))
    malformed = ["u007", "u+7", "u 7", "u7 ", "u٧", "u", "7", "v7", "u-7", "u" + "9" * 40]
    assert backend.directory.accounts([UserId(user) for user in malformed]) == {}
    assert account(backend, "u0") == DirectoryEntry(user=UserId("u0"), member=Member(0))


def test_range_without_prefix_has_numeric_ids(backend: Backend) -> None:
    backend.directory.enrol_range(IdRange(prefix="", first=0, count=100, first_member=Member(300)))
    assert account(backend, "7") == DirectoryEntry(user=UserId("7"), member=Member(307))
    assert account(backend, "u7") is None
    assert backend.directory.users([Member(307)]) == {Member(307): "7"}


def test_last_entry_wins_when_user_is_enrolled_twice_in_batch(backend: Backend) -> None:
    backend.directory.enrol([NOVA, DirectoryEntry(user=UserId("nova"), member=Member(7))])
    assert account(backend, "nova") == DirectoryEntry(user=UserId("nova"), member=Member(7))


def test_single_entry_overrides_its_range(backend: Backend) -> None:
    backend.directory.enrol_range(RANGE)
    deleted = DirectoryEntry(user=UserId("u11"), member=Member(1001), deleted=True)
    backend.directory.enrol([deleted])
    assert account(backend, "u11") == deleted
    assert account(backend, "u12") == DirectoryEntry(user=UserId("u12"), member=Member(1002))


def test_ranges_with_same_prefix_coexist(backend: Backend) -> None:
    backend.directory.enrol_range(RANGE)
    backend.directory.enrol_range(IdRange(prefix="u", first=100, count=5, first_member=Member(5000)))
    entries = backend.directory.accounts([UserId("u14"), UserId("u50"), UserId("u100")])
    assert {user: entry.member for user, entry in entries.items()} == {"u14": 1004, "u100": 5000}
    assert backend.directory.users([Member(1004), Member(3000), Member(5000)]) == {
        Member(1004): "u14",
        Member(5000): "u100",
    }


def test_range_of_id_is_returned(backend: Backend) -> None:
    backend.directory.enrol_range(RANGE)
    numeric = IdRange(prefix="", first=7, count=3, first_member=Member(9_000))
    backend.directory.enrol_range(numeric)
    assert backend.directory.id_range_of(UserId(f"u{RANGE.last}")) == RANGE
    assert backend.directory.id_range_of(UserId("9")) == numeric
    assert [backend.directory.id_range_of(UserId(user)) for user in ("", "u", f"u{RANGE.last + 1}", "6", "10")] == [
        None
    ] * 5
