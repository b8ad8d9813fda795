"""Facts that decide what a user sees, on every backend."""

from asyncio import run
from datetime import timedelta

import pytest

from notifier.domain.audience.account_flags import Flag, Flagged
from notifier.domain.audience.bitmap import BLOCK_MEMBERS
from notifier.domain.audience.follows import BlockFollows
from notifier.domain.audience.id_ranges import IdRange
from notifier.domain.ids import BurstKey, Member, UserId
from notifier.domain.users.digest import named
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.visibility import Mark, Marks, Viewer
from notifier.ports.directory import DirectoryEntry
from notifier.ports.users import InboxContext
from tests.contracts.flow_stores import Store, reopened
from tests.support.contract_examples import NOVA, ORION, burst
from tests.support.fakes.clock import START

ADA, ZOE = UserId("ada"), UserId("zoe")
MEMBER = Member(BLOCK_MEMBERS * 200 + 9)
LATER = START + timedelta(hours=1)
KEY, OTHER = BurstKey(NOVA, 1), BurstKey(NOVA, 2)


@pytest.fixture
def people(store: Store) -> Store:
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


def test_member_is_found_by_id_and_by_range(people: Store) -> None:
    people.directory.enrol_range(IdRange(prefix="u", first=0, count=10, member=Member(500)))
    assert run(people.people.member(ADA)) == MEMBER
    assert run(people.people.member(UserId("u7"))) == 507
    assert run(people.people.member(UserId("u10"))) is None
    assert run(people.people.member(UserId("nobody"))) is None
    assert run(people.people.member(UserId(""))) is None


def test_own_entry_overrides_a_range_already_used(people: Store) -> None:
    assert run(people.people.member(UserId("u3"))) is None
    people.directory.enrol_range(IdRange(prefix="u", first=0, count=10, member=Member(500)))
    assert [run(people.people.member(UserId(f"u{n}"))) for n in (3, 4, 10)] == [503, 504, None]
    people.directory.enrol([DirectoryEntry(user=UserId("u4"), member=Member(504), deleted=True)])
    assert [run(people.people.member(UserId(f"u{n}"))) for n in (3, 4)] == [503, None]


def test_open_tells_vips_from_others(people: Store) -> None:
    for on, sequence in ((True, 1), (False, 2)):
        people.flags.write([Flagged(flag=Flag.VIP, member=MEMBER, on=on, sequence=sequence)])
        context = run(people.people.open(ADA))
        assert context is not None
        assert context.vip is on


def test_deleted_user_is_not_found(people: Store) -> None:
    people.directory.enrol([DirectoryEntry(user=ADA, member=MEMBER, deleted=True)])
    assert run(people.people.member(ADA)) is None


def test_open_returns_member_and_viewer_in_one_call(people: Store) -> None:
    people.directory.enrol_range(IdRange(prefix="u", first=0, count=10, member=Member(500)))
    people.facts.follow(ADA, NOVA, START)
    people.facts.mute(ADA, ORION)
    people.facts.block(ADA, ZOE)
    run(people.people.mark(MEMBER, [KEY], Mark.READ))
    run(people.people.see(MEMBER, LATER, [OTHER]))
    with reopened(people) as other_process:
        assert run(other_process.people.open(ADA)) == InboxContext(
            member=MEMBER, viewer=viewer(other_process), vip=False
        )
        of_range = run(other_process.people.viewer(UserId("u7"), Member(507)))
        assert run(other_process.people.open(UserId("u7"))) == InboxContext(
            member=Member(507), viewer=of_range, vip=False
        )


def test_unknown_user_cannot_be_opened(people: Store) -> None:
    people.directory.enrol_range(IdRange(prefix="u", first=0, count=10, member=Member(500)))
    people.directory.enrol([DirectoryEntry(user=ADA, member=MEMBER, deleted=True)])
    for user in (ADA, UserId("nobody"), UserId("u10"), UserId("")):
        assert run(people.people.open(user)) is None


def test_open_ignores_wrong_expected_member(people: Store) -> None:
    people.directory.enrol([DirectoryEntry(user=UserId("u3"), member=Member(77))])
    people.directory.enrol_range(IdRange(prefix="u", first=0, count=10, member=Member(500)))
    people.directory.enrol([DirectoryEntry(user=UserId("u4"), member=Member(504), deleted=True)])
    people.facts.follow(ADA, NOVA, START)
    for expected in (None, MEMBER, Member(MEMBER + 1), Member(0)):
        assert run(people.people.open(ADA, expected)) == InboxContext(member=MEMBER, viewer=viewer(people), vip=False)
    for expected in (None, Member(77), Member(503)):
        context = run(people.people.open(UserId("u3"), expected))
        assert context is not None
        assert context.member == 77
    of_range = run(people.people.open(UserId("u7"), Member(507)))
    assert of_range is not None
    assert of_range.member == 507
    for user, member in (("u4", 504), ("u10", 510), ("nobody", 1), ("", 0)):
        assert run(people.people.open(UserId(user), Member(member))) is None


def test_expected_member_comes_from_range_or_is_unknown(people: Store) -> None:
    people.directory.enrol_range(IdRange(prefix="u", first=0, count=10, member=Member(500)))
    run(people.people.open(UserId("u3")))
    assert run(people.people.expected(UserId("u7"))) in (None, 507)
    assert [run(people.people.expected(user)) for user in (ADA, UserId("u10"), UserId(""))] == [None] * 3


def test_new_user_follows_and_has_seen_nothing(people: Store) -> None:
    assert viewer(people) == Viewer(user=ADA, follows={}, blocked=frozenset(), volume={}, marks=Marks())


def test_follows_are_visible_from_their_start(people: Store) -> None:
    people.facts.follow(ADA, NOVA, START)
    people.facts.follow(ADA, ORION, LATER)
    with reopened(people) as other_process:
        assert viewer(other_process).follows == {NOVA: START, ORION: LATER}
        assert viewer(other_process, ZOE).follows == {}


def test_block_follow_applies_to_members_in_its_bitmap(people: Store) -> None:
    people.follows.write_blocks([block_follow(9)])
    assert viewer(people).follows == {NOVA: START}
    assert viewer(people, ZOE).follows == {}


def test_own_follow_overrides_block_follow(people: Store) -> None:
    people.follows.write_blocks([block_follow(9, 10)])
    people.facts.follow(ADA, NOVA, LATER)
    assert viewer(people).follows == {NOVA: LATER}
    assert viewer(people, ZOE).follows == {NOVA: START}


def test_muted_subject_is_followed_but_never_visible(people: Store) -> None:
    people.follows.write_blocks([block_follow(9, 10)])
    people.facts.mute(ADA, NOVA)
    people.facts.unfollow(ZOE, NOVA)
    with reopened(people) as other_process:
        assert (viewer(other_process).follows, list(viewer(other_process).heard)) == ({NOVA: NEVER}, [])
        assert viewer(other_process, ZOE).follows == {}


def test_unmuted_subject_is_visible_from_then_on(people: Store) -> None:
    people.follows.write_blocks([block_follow(9, 10)])
    people.facts.mute(ADA, NOVA)
    people.facts.unmute(ADA, NOVA, LATER)
    assert viewer(people).follows == {NOVA: LATER}
    assert viewer(people, ZOE).follows == {NOVA: START}


def test_new_follow_does_not_unmute(people: Store) -> None:
    people.facts.mute(ADA, NOVA)
    assert viewer(people).follows == {}
    people.facts.follow(ADA, NOVA, START)
    assert viewer(people).follows == {NOVA: NEVER}


def test_user_block_hides_both_users(people: Store) -> None:
    people.facts.block(ADA, ZOE)
    assert set(viewer(people).blocked) == {ZOE}
    assert set(viewer(people, ZOE).blocked) == {ADA}


def test_volume_is_stored_per_subject(people: Store) -> None:
    people.facts.volume(ADA, NOVA, Volume.OFF)
    people.facts.volume(ADA, NOVA, Volume.FIRST)
    assert viewer(people).volume == {NOVA: Volume.FIRST}
    assert viewer(people, ZOE).volume == {}


def test_seen_at_only_moves_forward(people: Store) -> None:
    run(people.people.see(MEMBER, LATER, []))
    run(people.people.see(MEMBER, START, []))
    with reopened(people) as other_process:
        assert marks(other_process).seen_at == LATER
        assert viewer(other_process, ZOE).marks.seen_at is None


def test_bursts_shown_ahead_of_their_time_count_as_seen(people: Store) -> None:
    run(people.people.see(MEMBER, START, [KEY]))
    run(people.people.see(MEMBER, START, [KEY, OTHER]))
    assert marks(people).also_seen == {KEY, OTHER}


def test_seen_burst_stays_seen_when_seen_at_passes_it(people: Store) -> None:
    opened = burst(opened_at=START + timedelta(seconds=1))
    people.bursts.write([opened], [])
    run(people.people.see(MEMBER, START, [opened.key, OTHER]))
    assert not marks(people).unseen(opened.key, opened.opened_at)
    run(people.people.see(MEMBER, LATER, []))
    assert not marks(people).unseen(opened.key, opened.opened_at)
    assert OTHER in marks(people).also_seen


def test_last_mark_of_a_burst_wins(people: Store) -> None:
    run(people.people.mark(MEMBER, [KEY, OTHER], Mark.READ))
    run(people.people.mark(MEMBER, [OTHER], Mark.HIDDEN))
    with reopened(people) as other_process:
        assert marks(other_process).by_burst == {KEY: Mark.READ, OTHER: Mark.HIDDEN}
        assert viewer(other_process, ZOE).marks.by_burst == {}


def test_digest_marks_are_stored_without_a_burst(people: Store) -> None:
    today, tomorrow = named(ADA, START.date()), named(ADA, START.date() + timedelta(days=1))
    run(people.people.see(MEMBER, START, [today, tomorrow]))
    run(people.people.mark(MEMBER, [today, tomorrow, KEY], Mark.UNREAD))
    run(people.people.mark(MEMBER, [tomorrow], Mark.HIDDEN))
    with reopened(people) as other_process:
        assert marks(other_process).also_seen == {today, tomorrow}
        assert marks(other_process).by_burst == {today: Mark.UNREAD, tomorrow: Mark.HIDDEN, KEY: Mark.UNREAD}
        assert viewer(other_process, ZOE).marks == Marks()
    run(people.people.see(MEMBER, START + timedelta(days=3), []))
    assert tomorrow in marks(people).also_seen
    assert not marks(people).unseen(today, LATER)


def test_last_mark_wins_even_if_clock_went_back(people: Store) -> None:
    run(people.people.mark(MEMBER, [KEY], Mark.READ))
    people.clock.advance(-timedelta(seconds=3))
    run(people.people.mark(MEMBER, [KEY], Mark.HIDDEN))
    assert marks(people).by_burst == {KEY: Mark.HIDDEN}
