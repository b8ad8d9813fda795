"""Facts that decide what a user sees, on every backend."""

from asyncio import run
from datetime import timedelta

import pytest

from notifier.domain.audience.account_flags import Flag, FlagRow
from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.audience.follows import BlockFollows
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.digest import digest_key
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.ports.user_directory_and_account_flags import DirectoryEntry
from notifier.ports.viewers_preferences_user_blocks import InboxContext
from tests.contracts.memory_and_sqlite_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, burst
from tests.support.fakes.clock_and_nonces import START

ADA, ZOE = UserId("ada"), UserId("zoe")
MEMBER = Member(BLOCK_MEMBERS * 200 + 9)
LATER = START + timedelta(hours=1)
KEY, OTHER = BurstKey(NOVA, 1), BurstKey(NOVA, 2)


@pytest.fixture
def user_store(store: Store) -> Store:
    store.directory.enrol(
        [DirectoryEntry(user=ADA, member=MEMBER), DirectoryEntry(user=ZOE, member=Member(MEMBER + 1))]
    )
    return store


def viewer(store: Store, user: UserId = ADA) -> Viewer:
    return run(store.people.viewer(user, Member(MEMBER + (user == ZOE))))


def marks(store: Store) -> Marks:
    return viewer(store).marks


def block_follow(*slots: int) -> BlockFollows:
    bits = bytearray(BLOCK_MEMBERS // 8)
    for slot in slots:
        bits[slot // 8] |= 1 << slot % 8
    return BlockFollows(subject=NOVA, block=MEMBER // BLOCK_MEMBERS, visible_from=START, members=bytes(bits))


def test_member_is_found_by_id_and_by_range(user_store: Store) -> None:
    user_store.directory.enrol_range(IdRange(prefix="u", first=0, count=10, first_member=Member(500)))
    assert run(user_store.people.member(ADA)) == MEMBER
    assert run(user_store.people.member(UserId("u7"))) == 507
    assert run(user_store.people.member(UserId("u10"))) is None
    assert run(user_store.people.member(UserId("nobody"))) is None
    assert run(user_store.people.member(UserId(""))) is None


def test_own_entry_overrides_a_range_already_used(user_store: Store) -> None:
    assert run(user_store.people.member(UserId("u3"))) is None
    user_store.directory.enrol_range(IdRange(prefix="u", first=0, count=10, first_member=Member(500)))
    assert [run(user_store.people.member(UserId(f"u{n}"))) for n in (3, 4, 10)] == [503, 504, None]
    user_store.directory.enrol([DirectoryEntry(user=UserId("u4"), member=Member(504), deleted=True)])
    assert [run(user_store.people.member(UserId(f"u{n}"))) for n in (3, 4)] == [503, None]


def test_open_tells_vips_from_others(user_store: Store) -> None:
    for on, sequence in ((True, 1), (False, 2)):
        user_store.flags.write([FlagRow(flag=Flag.VIP, member=MEMBER, is_set=on, sequence=sequence)])
        context = run(user_store.people.open(ADA))
        assert context is not None
        assert context.is_vip is on


def test_deleted_user_is_not_found(user_store: Store) -> None:
    user_store.directory.enrol([DirectoryEntry(user=ADA, member=MEMBER, deleted=True)])
    assert run(user_store.people.member(ADA)) is None


def test_open_returns_member_and_viewer_in_one_call(user_store: Store) -> None:
    user_store.directory.enrol_range(IdRange(prefix="u", first=0, count=10, first_member=Member(500)))
    user_store.facts.follow(ADA, NOVA, START)
    user_store.facts.mute(ADA, ORION)
    user_store.facts.block(ADA, ZOE)
    run(user_store.people.mark(MEMBER, [KEY], Mark.READ))
    run(user_store.people.mark_seen(MEMBER, LATER, [OTHER]))
    with reopened(user_store) as other_process:
        assert run(other_process.people.open(ADA)) == InboxContext(
            member=MEMBER, viewer=viewer(other_process), is_vip=False
        )
        of_range = run(other_process.people.viewer(UserId("u7"), Member(507)))
        assert run(other_process.people.open(UserId("u7"))) == InboxContext(
            member=Member(507), viewer=of_range, is_vip=False
        )


def test_unknown_user_cannot_be_opened(user_store: Store) -> None:
    user_store.directory.enrol_range(IdRange(prefix="u", first=0, count=10, first_member=Member(500)))
    user_store.directory.enrol([DirectoryEntry(user=ADA, member=MEMBER, deleted=True)])
    for user in (ADA, UserId("nobody"), UserId("u10"), UserId("")):
        assert run(user_store.people.open(user)) is None


def test_open_ignores_wrong_expected_member(user_store: Store) -> None:
    user_store.directory.enrol([DirectoryEntry(user=UserId("u3"), member=Member(77))])
    user_store.directory.enrol_range(IdRange(prefix="u", first=0, count=10, first_member=Member(500)))
    user_store.directory.enrol([DirectoryEntry(user=UserId("u4"), member=Member(504), deleted=True)])
    user_store.facts.follow(ADA, NOVA, START)
    for expected in (None, MEMBER, Member(MEMBER + 1), Member(0)):
        assert run(user_store.people.open(ADA, expected)) == InboxContext(
            member=MEMBER, viewer=viewer(user_store), is_vip=False
        )
    for expected in (None, Member(77), Member(503)):
        context = run(user_store.people.open(UserId("u3"), expected))
        assert context is not None
        assert context.member == 77
    of_range = run(user_store.people.open(UserId("u7"), Member(507)))
    assert of_range is not None
    assert of_range.member == 507
    for user, member in (("u4", 504), ("u10", 510), ("nobody", 1), ("", 0)):
        assert run(user_store.people.open(UserId(user), Member(member))) is None


def test_expected_member_comes_from_range_or_is_unknown(user_store: Store) -> None:
    user_store.directory.enrol_range(IdRange(prefix="u", first=0, count=10, first_member=Member(500)))
    run(user_store.people.open(UserId("u3")))
    assert run(user_store.people.cached_member(UserId("u7"))) in (None, 507)
    assert [run(user_store.people.cached_member(user)) for user in (ADA, UserId("u10"), UserId(""))] == [None] * 3


def test_new_user_follows_and_has_seen_nothing(user_store: Store) -> None:
    assert viewer(user_store) == Viewer(user=ADA, follows={}, blocked=frozenset(), volume={}, marks=Marks())


def test_follows_are_visible_from_their_start(user_store: Store) -> None:
    user_store.facts.follow(ADA, NOVA, START)
    user_store.facts.follow(ADA, ORION, LATER)
    with reopened(user_store) as other_process:
        assert viewer(other_process).follows == {NOVA: START, ORION: LATER}
        assert viewer(other_process, ZOE).follows == {}


def test_block_follow_applies_to_members_in_its_bitmap(user_store: Store) -> None:
    user_store.follows.write_blocks([block_follow(9)])
    assert viewer(user_store).follows == {NOVA: START}
    assert viewer(user_store, ZOE).follows == {}


def test_own_follow_overrides_block_follow(user_store: Store) -> None:
    user_store.follows.write_blocks([block_follow(9, 10)])
    user_store.facts.follow(ADA, NOVA, LATER)
    assert viewer(user_store).follows == {NOVA: LATER}
    assert viewer(user_store, ZOE).follows == {NOVA: START}


def test_muted_subject_is_followed_but_never_visible(user_store: Store) -> None:
    user_store.follows.write_blocks([block_follow(9, 10)])
    user_store.facts.mute(ADA, NOVA)
    user_store.facts.unfollow(ZOE, NOVA)
    with reopened(user_store) as other_process:
        assert (viewer(other_process).follows, list(viewer(other_process).listed_subjects)) == ({NOVA: NEVER}, [])
        assert viewer(other_process, ZOE).follows == {}


def test_unmuted_subject_is_visible_from_then_on(user_store: Store) -> None:
    user_store.follows.write_blocks([block_follow(9, 10)])
    user_store.facts.mute(ADA, NOVA)
    user_store.facts.unmute(ADA, NOVA, LATER)
    assert viewer(user_store).follows == {NOVA: LATER}
    assert viewer(user_store, ZOE).follows == {NOVA: START}


def test_new_follow_does_not_unmute(user_store: Store) -> None:
    user_store.facts.mute(ADA, NOVA)
    assert viewer(user_store).follows == {}
    user_store.facts.follow(ADA, NOVA, START)
    assert viewer(user_store).follows == {NOVA: NEVER}


def test_user_block_hides_both_users(user_store: Store) -> None:
    user_store.facts.block(ADA, ZOE)
    assert set(viewer(user_store).blocked) == {ZOE}
    assert set(viewer(user_store, ZOE).blocked) == {ADA}


def test_volume_is_stored_per_subject(user_store: Store) -> None:
    user_store.facts.volume(ADA, NOVA, Volume.OFF)
    user_store.facts.volume(ADA, NOVA, Volume.FIRST)
    assert viewer(user_store).volume == {NOVA: Volume.FIRST}
    assert viewer(user_store, ZOE).volume == {}


def test_seen_at_only_moves_forward(user_store: Store) -> None:
    run(user_store.people.mark_seen(MEMBER, LATER, []))
    run(user_store.people.mark_seen(MEMBER, START, []))
    with reopened(user_store) as other_process:
        assert marks(other_process).seen_at == LATER
        assert viewer(other_process, ZOE).marks.seen_at is None


def test_bursts_shown_ahead_of_their_time_count_as_seen(user_store: Store) -> None:
    run(user_store.people.mark_seen(MEMBER, START, [KEY]))
    run(user_store.people.mark_seen(MEMBER, START, [KEY, OTHER]))
    assert marks(user_store).also_seen == {KEY, OTHER}


def test_seen_burst_stays_seen_when_seen_at_passes_it(user_store: Store) -> None:
    opened = burst(opened_at=START + timedelta(seconds=1))
    user_store.bursts.write([opened], [])
    run(user_store.people.mark_seen(MEMBER, START, [opened.key, OTHER]))
    assert not marks(user_store).is_unseen(opened.key, opened.opened_at)
    run(user_store.people.mark_seen(MEMBER, LATER, []))
    assert not marks(user_store).is_unseen(opened.key, opened.opened_at)
    assert OTHER in marks(user_store).also_seen


def test_last_mark_of_a_burst_wins(user_store: Store) -> None:
    run(user_store.people.mark(MEMBER, [KEY, OTHER], Mark.READ))
    run(user_store.people.mark(MEMBER, [OTHER], Mark.HIDDEN))
    with reopened(user_store) as other_process:
        assert marks(other_process).by_burst == {KEY: Mark.READ, OTHER: Mark.HIDDEN}
        assert viewer(other_process, ZOE).marks.by_burst == {}


def test_digest_marks_are_stored_without_a_burst(user_store: Store) -> None:
    today, tomorrow = digest_key(ADA, START.date()), digest_key(ADA, START.date() + timedelta(days=1))
    run(user_store.people.mark_seen(MEMBER, START, [today, tomorrow]))
    run(user_store.people.mark(MEMBER, [today, tomorrow, KEY], Mark.UNREAD))
    run(user_store.people.mark(MEMBER, [tomorrow], Mark.HIDDEN))
    with reopened(user_store) as other_process:
        assert marks(other_process).also_seen == {today, tomorrow}
        assert marks(other_process).by_burst == {today: Mark.UNREAD, tomorrow: Mark.HIDDEN, KEY: Mark.UNREAD}
        assert viewer(other_process, ZOE).marks == Marks()
    run(user_store.people.mark_seen(MEMBER, START + timedelta(days=3), []))
    assert tomorrow in marks(user_store).also_seen
    assert not marks(user_store).is_unseen(today, LATER)


def test_last_mark_wins_even_if_clock_went_back(user_store: Store) -> None:
    run(user_store.people.mark(MEMBER, [KEY], Mark.READ))
    user_store.clock.advance(-timedelta(seconds=3))
    run(user_store.people.mark(MEMBER, [KEY], Mark.HIDDEN))
    assert marks(user_store).by_burst == {KEY: Mark.HIDDEN}
