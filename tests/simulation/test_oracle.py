"""The oracle shares no code with the product, and detects wrong results."""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.repo.repository_files import modules
from tests.support.oracle import (
    FOR_EVER,
    BlockUpdate,
    FollowUpdate,
    InboxMarks,
    ObservedBurst,
    Oracle,
    Person,
    PreferenceUpdate,
    RetractionUpdate,
    ShardTiers,
    State,
    Tweet,
)
from tests.support.simulator.audience_snapshot_observer import snapshot_contradictions

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
KEY = ("mention", "nova", 1)
KIM = Person(name="kim", member=1, follows={"nova": NOON}, idle=timedelta(hours=1), push=True)
NOVA = Person(name="nova", member=2)
BURST = ObservedBurst(key=KEY, opened_at=NOON, tweets=("e1",))
OWN = ObservedBurst(key=("self", "nova", 1), opened_at=NOON, tweets=("e1",))
ORACLE = Oracle(
    people={"kim": KIM, "nova": NOVA},
    tweets={"e1": Tweet(id="e1", author="ada", mentioned=("nova", "ghost", "ada"))},
    bursts={KEY: BURST, OWN.key: OWN},
)


def seen_by(person: Person, oracle: Oracle = ORACLE, marked: InboxMarks | None = None) -> list[tuple[str, str, int]]:
    people = {**oracle.people, person.name: person}
    return replace(oracle, people=people).list(person.name, marked or InboxMarks(), NOON)


def test_oracle_imports_no_product_code() -> None:
    names = {name for module in modules("tests/support/oracle") for name in module.imports()}
    outside = {name for name in names if not name.startswith("tests.support.oracle")}
    assert {name.partition(".")[0] for name in outside} <= set(sys.stdlib_module_names)


def test_follower_and_mentioned_account_see_their_bursts() -> None:
    assert seen_by(KIM) == [KEY]
    assert seen_by(NOVA) == [OWN.key]


@pytest.mark.parametrize(
    "person",
    [
        replace(KIM, follows={}),
        replace(KIM, muted=frozenset({"nova"})),
        replace(KIM, follows={"nova": NOON + timedelta(milliseconds=1)}),
        replace(KIM, volume={"nova": "off"}),
        replace(KIM, apart={("ada", False): FOR_EVER}),
        replace(KIM, apart={("ada", True): FOR_EVER, ("ada", False): NOON}),
        replace(KIM, apart={("nova", False): FOR_EVER}),
        replace(KIM, apart={("nova", True): FOR_EVER}),
        replace(KIM, apart={("nova", True): NOON + timedelta(milliseconds=1)}),
    ],
    ids=[
        *("unfollowed", "muted", "followed later", "off", "blocks the mentioner", "is blocked by the mentioner"),
        *("blocks the account", "is blocked by the account", "was blocked at the opening"),
    ],
)
def test_excluded_user_sees_nothing(person: Person) -> None:
    assert seen_by(person) == []


def test_digest_appears_at_its_hour_and_has_its_own_marks() -> None:
    def listed(hours: float, person: Person = KIM, marked: InboxMarks | None = None) -> list[tuple[str, str, int]]:
        oracle = ORACLE.of(replace(person, volume={"nova": "digest"}))
        return oracle.list("kim", marked or InboxMarks(), NOON + timedelta(hours=hours))

    key = ("digest", "kim", 20260105)
    assert (listed(5.99), listed(6), listed(6 + 24 * 7)) == ([], [key], [key])
    assert listed(24 * 90 - 0.01) == [key]
    assert listed(24 * 90) == []
    assert listed(6, marked=InboxMarks(marks={key: "hidden"})) == []
    assert listed(6, marked=InboxMarks(marks={KEY: "hidden"})) == []
    assert listed(6, replace(KIM, apart={("ada", False): FOR_EVER})) == []
    assert ORACLE.unread(ORACLE.entry_of(key), InboxMarks(seen=[(NOON + timedelta(hours=5.99), ())]))
    assert not ORACLE.unread(ORACLE.entry_of(key), InboxMarks(seen=[(NOON + timedelta(hours=6), ())]))
    late = replace(BURST, opened_at=NOON + timedelta(hours=6))
    wants = replace(ORACLE, bursts={KEY: late}).of(replace(KIM, volume={"nova": "digest"}))
    assert wants.list("kim", InboxMarks(), NOON + timedelta(hours=30)) == [("digest", "kim", 20260106)]


def follow_change(sequence: int, minutes: int, *, is_unfollow: bool = False) -> FollowUpdate:
    return FollowUpdate(
        person="kim", owner="nova", sequence=sequence, at=NOON + timedelta(minutes=minutes), is_unfollow=is_unfollow
    )


def test_follower_sees_bursts_opened_after_follow() -> None:
    assert seen_by(replace(KIM, follows={}).after([follow_change(1, 0)])) == [KEY]
    assert seen_by(replace(KIM, follows={}).after([follow_change(1, 1)])) == []
    assert seen_by(KIM.after([follow_change(1, 1, is_unfollow=True), follow_change(2, 2)])) == []


def test_late_follow_does_not_undo_unfollow() -> None:
    """The arrival order does not matter. With equal sequence numbers the unfollow wins."""
    unfollow, late_follow = follow_change(5, 0, is_unfollow=True), follow_change(4, -1)
    for changes in ([unfollow, late_follow], [late_follow, unfollow], [follow_change(5, -1), unfollow]):
        assert seen_by(KIM.after(changes)) == []
    assert seen_by(KIM.after([unfollow, follow_change(6, 0)])) == [KEY]


def test_late_block_loses_to_newer_unblock() -> None:
    def user_block(sequence: int, until: datetime, *, peer: str = "nova", theirs: bool = True) -> BlockUpdate:
        return BlockUpdate(person="kim", peer=peer, peer_blocks=theirs, sequence=sequence, until=until)

    block, lifted = user_block(4, FOR_EVER), user_block(5, NOON)
    assert seen_by(KIM.after([block])) == []
    assert seen_by(KIM.after([block, lifted])) == seen_by(KIM.after([lifted, block])) == [KEY]
    assert seen_by(KIM.after([lifted, user_block(5, FOR_EVER)])) == []
    assert seen_by(KIM.after([block, user_block(5, NOON + timedelta(milliseconds=1))])) == []
    assert seen_by(KIM.after([lifted, user_block(1, FOR_EVER, theirs=False)])) == []
    assert seen_by(KIM.after([user_block(1, NOON + timedelta(hours=1), peer="ada")])) == [KEY]


def test_latest_preference_wins_per_field() -> None:
    def preference(minutes: int, *, volume: str | None = None, since: datetime | None = None) -> PreferenceUpdate:
        return PreferenceUpdate(
            person="kim", owner="nova", at=NOON + timedelta(minutes=minutes), volume=volume, since=since
        )

    mute, volume = preference(1, since=FOR_EVER), preference(2, volume="first")
    unmuted = preference(3, since=NOON + timedelta(minutes=3))
    assert KIM.after([volume, mute]).muted == {"nova"}
    assert KIM.after([unmuted, volume, mute]).muted == frozenset()
    assert KIM.after([unmuted, volume, mute]).volume == {"nova": "first"}
    assert seen_by(KIM.after([mute])) == seen_by(KIM.after([mute, unmuted])) == []
    assert KIM.after([replace(mute, person="lee")]) == replace(KIM, muted=frozenset())


def test_member_with_wrong_tiers_is_reported() -> None:
    unfollowed = KIM.after([follow_change(2, 0, is_unfollow=True)])
    vip = replace(KIM, vip=True)
    none = frozenset[int]()

    def problems(
        possible: list[Person], *, p0: frozenset[int] = none, p1: frozenset[int] = none, more: int = 0
    ) -> list[str]:
        division = ShardTiers(tiers={"p0": p0, "p1": p1, "p2": none}, dormant=more, suppressed=0, push=p0 | p1)
        return list(snapshot_contradictions(ORACLE, division, [BURST], 0, {"kim": possible}))

    kim = frozenset({KIM.member})
    assert (
        problems([KIM], p1=kim)
        == problems([KIM, unfollowed])
        == problems([KIM, unfollowed], p1=kim)
        == problems([KIM, vip], p0=kim)
        == []
    )
    assert problems([KIM], p0=kim, p1=kim)[0] == "1 is in 2 tiers"
    assert problems([KIM]) == ["1 is in (None, False), and may be in [('p1', True)]"]
    assert problems([KIM], p0=kim) == ["1 is in ('p0', True), and may be in [('p1', True)]"]
    assert problems([unfollowed], p1=kim) == ["1 is in ('p1', True), and may be in [('outside', False)]"]
    assert problems([KIM], p1=kim | {9}) == ["9 is no user of the shard"]
    assert problems([KIM], p1=kim, more=1) == ["1 are dormant, and 0 to 0 may be"]


def test_protected_authors_burst_is_visible_to_followers_only() -> None:
    secret = replace(ORACLE, tweets={"e1": Tweet(id="e1", author="eve", mentioned=("nova",), protected=True)})
    assert seen_by(KIM, secret) == []
    follower = replace(KIM, follows={"nova": NOON, "eve": NOON})
    assert seen_by(follower, secret) == [KEY]
    assert seen_by(replace(follower, muted=frozenset({"eve"})), secret) == [KEY]


def test_volume_first_shows_only_first_burst_of_day() -> None:
    second = ObservedBurst(key=("mention", "nova", 2), opened_at=NOON + timedelta(hours=1), tweets=("e1",))
    later = replace(ORACLE, bursts={**ORACLE.bursts, second.key: second})
    assert seen_by(KIM, later) == [second.key, KEY]
    assert seen_by(replace(KIM, volume={"nova": "first"}), later) == [KEY]


def test_next_burst_is_first_of_day_after_retraction() -> None:
    keys = [("mention", "nova", n) for n in (1, 2, 3, 4)]
    bursts = {
        k: ObservedBurst(key=k, opened_at=NOON + timedelta(hours=k[2]), tweets=("e1",), opened_version=2 * k[2])
        for k in keys
    }

    def firsts(**retracted: int) -> list[int]:
        states = {k: replace(b, retracted_version=retracted.get(f"of_{k[2]}")) for k, b in bursts.items()}
        return [k[2] for k, b in states.items() if replace(ORACLE, bursts=states).first_of_day(b)]

    assert (firsts(), firsts(of_2=5)) == ([1], [1])
    assert (firsts(of_1=3), firsts(of_1=5), firsts(of_1=9)) == ([1, 2], [1, 3], [1])
    assert firsts(of_1=3, of_2=7) == [1, 2, 4]


def test_mark_overrides_seen() -> None:
    seen = InboxMarks(seen=[(NOON, ())])
    assert ORACLE.unread(BURST, InboxMarks())
    assert not ORACLE.unread(BURST, seen)
    assert ORACLE.unread(BURST, replace(seen, marks={KEY: "unread"}))
    assert seen_by(KIM, marked=InboxMarks(marks={KEY: "hidden"})) == []


def test_alert_is_sent_for_new_bursts_of_unblocked_authors() -> None:
    tweets = {**ORACLE.tweets, "e2": Tweet(id="e2", author="bob", mentioned=("nova",))}
    joined = replace(BURST, tweets=("e1", "e2"))
    oracle = replace(ORACLE, tweets=tweets, bursts={KEY: joined})

    def allows_alert(person: Person = KIM, marked: InboxMarks | None = None) -> bool:
        return oracle.allows_alert(person, joined, marked or InboxMarks(), NOON)

    assert allows_alert()
    assert allows_alert(replace(KIM, apart={("bob", False): FOR_EVER}))
    assert allows_alert(marked=InboxMarks(seen=[(NOON - timedelta(milliseconds=1), ())]))
    assert allows_alert(replace(KIM, apart={("ada", False): NOON + timedelta(hours=1)}))
    assert not allows_alert(replace(KIM, apart={("ada", True): FOR_EVER}))
    assert not allows_alert(replace(KIM, apart={("nova", True): FOR_EVER}))
    assert not allows_alert(replace(KIM, muted=frozenset({"nova"})))
    assert not allows_alert(marked=InboxMarks(seen=[(NOON, ())]))
    assert not allows_alert(marked=InboxMarks(seen=[(NOON - timedelta(hours=1), [KEY])]))
    assert not any(allows_alert(marked=InboxMarks(marks={KEY: mark})) for mark in ("read", "unread", "hidden"))


def test_every_follower_is_in_one_tier_or_excluded() -> None:
    vip, idle = (
        replace(KIM, name="vip", member=3, vip=True),
        replace(KIM, name="idle", member=4, idle=timedelta(days=40)),
    )
    muted = replace(KIM, name="muted", member=5, muted=frozenset({"nova"}))
    eager = replace(idle, name="eager", member=6, asked=True)
    oracle = replace(ORACLE, people={person.name: person for person in (KIM, NOVA, vip, idle, muted, eager)})
    division = oracle.divide(BURST, 0)
    assert division.tiers == {"p0": {3}, "p1": {1}, "p2": frozenset()}
    assert (division.dormant, division.suppressed, division.push) == (2, 1, frozenset({1, 3, 6}))
    assert oracle.divide(replace(BURST, standard=True), 0).tiers["p2"] == {4, 6}


def test_missing_or_duplicate_mention_is_reported() -> None:
    assert list(ORACLE.sequencing_violations(["e1"])) == []
    assert list(replace(ORACLE, bursts={KEY: BURST}).sequencing_violations(["e1"])) == [
        "e1 is in no burst of self:nova"
    ]
    twice = replace(
        ORACLE, bursts={**ORACLE.bursts, ("mention", "nova", 2): replace(BURST, key=("mention", "nova", 2))}
    )
    assert list(twice.sequencing_violations(["e1"])) == ["e1 is in 2 bursts of mention:nova"]


def test_bursts_too_close_or_over_budget_are_reported() -> None:
    def spaced(gap: timedelta, n: int) -> Oracle:
        keys = [("mention", "nova", i) for i in range(1, n + 1)]
        return replace(
            ORACLE, bursts={k: ObservedBurst(key=k, opened_at=NOON + gap * k[2], tweets=("e1",)) for k in keys}
        )

    minute = timedelta(minutes=1)
    assert list(spaced(minute, 6).spacing_violations(minute, ["nova"])) == []
    assert list(spaced(minute / 2, 2).spacing_violations(minute, ())) == [
        "two bursts of mention:nova are closer than 0:01:00"
    ]
    assert list(spaced(minute, 9).spacing_violations(minute, ["nova"])) == [
        "mention:nova had 8 fan-outs within 0:07:00"
    ]


def test_retractions_apply_to_own_author_and_earlier_tweets() -> None:
    tweet = Tweet(id="e1", author="ada", mentioned=("nova", "lyra"), at=NOON)
    delete = RetractionUpdate(kind="delete", author="ada", tweet="e1")
    protect = RetractionUpdate(kind="protect", author="ada", at=NOON)
    edits = [RetractionUpdate(kind="edit", author="ada", tweet="e1", mentioned=("lyra",), sequence=n) for n in (1, 2)]

    def states(*retractions: RetractionUpdate) -> list[State]:
        return [
            replace(ORACLE, tweets={"e1": tweet}, retractions=retractions).state("e1", name)
            for name in ("nova", "lyra")
        ]

    assert states(delete) == states(protect, replace(protect, kind="erase")) == [State.GONE] * 2
    assert states(protect) == [State.PRIVATE] * 2
    assert states(edits[0]) == [State.GONE, State.PUBLIC]
    assert states(edits[1], replace(edits[0], mentioned=())) == [State.GONE, State.PUBLIC]
    assert states(replace(delete, author="bob"), replace(protect, at=NOON - timedelta(minutes=1))) == [State.PUBLIC] * 2


def test_alert_is_cancelled_when_opening_tweet_is_retracted() -> None:
    tweets = {**ORACLE.tweets, "e2": Tweet(id="e2", author="bob", mentioned=("nova",))}
    joined = replace(BURST, tweets=("e1", "e2"))
    oracle = replace(ORACLE, tweets=tweets, bursts={KEY: joined})
    first, second = (RetractionUpdate(kind="delete", author=tweets[id].author, tweet=id) for id in ("e1", "e2"))
    assert replace(oracle, retractions=[second]).allows_alert(KIM, joined, InboxMarks(), NOON)
    assert not replace(oracle, retractions=[first]).allows_alert(KIM, joined, InboxMarks(), NOON)
    assert seen_by(KIM, replace(oracle, retractions=[first])) == [KEY]
    assert seen_by(KIM, replace(oracle, retractions=[first, second])) == []


def test_only_retracted_mentions_may_be_in_no_burst() -> None:
    nowhere = replace(ORACLE, bursts={})
    assert len(list(nowhere.sequencing_violations(["e1"]))) == 2
    assert (
        list(
            replace(
                nowhere, retractions=[RetractionUpdate(kind="delete", author="ada", tweet="e1")]
            ).sequencing_violations(["e1"])
        )
        == []
    )
