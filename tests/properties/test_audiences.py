"""The audience by sets and the audience by the predicate are the same people, and the oracle's."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import from_offsets, holds
from notifier.domain.audience.snapshot import seal
from notifier.domain.audience.tiers import TIERS, SetKind, ShardSets
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, Lane, Member, Subject, UserId
from notifier.domain.users.account_preferences import Overall
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.visibility import Marks, Viewer, visible
from tests.support.examples import EVE, HOUR, NOON, NOVA, OF_NOVA, SELF_NOVA, burst
from tests.support.oracle import Marked, Oracle, Person, Seen, Tweet

SINCE = NOON - HOUR
OF_EVE = Subject(Kind.MENTION, EVE)
AUTHOR, MENTIONED = Member(0), Member(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Of one person to the mentioned account, and to the author."""

    follows: frozenset[Subject]
    muted: frozenset[Subject]
    volume: Volume
    overall: Volume


RELATIONS = st.builds(
    Relation,
    follows=st.frozensets(st.sampled_from([OF_NOVA, OF_EVE])),
    muted=st.frozensets(st.sampled_from([OF_NOVA, OF_EVE])),
    volume=st.sampled_from(Volume),
    overall=st.sampled_from([volume for volume in Volume if volume is not Volume.DEFAULT]),
)
BURSTS = st.builds(
    burst,
    subject=st.sampled_from([OF_NOVA, SELF_NOVA]),
    mentioners=st.just((EVE,)),
    first_of_day=st.booleans(),
    restricted_to=st.sampled_from([None, EVE]),
    lane=st.just(Lane.STANDARD),
)


def name_of(member: Member) -> UserId:
    return {AUTHOR: EVE, MENTIONED: NOVA}.get(member, UserId(f"u{member}"))


def live(people: Mapping[Member, Relation], of: Burst) -> ShardSets:
    """What the indexer would have made of it: a mute is an entry of its own, beside the follow."""

    sets = {SetKind.FOLLOWERS: [m for m, one in people.items() if OF_NOVA in one.follows]}
    sets[SetKind.MUTED] = [m for m, one in people.items() if OF_NOVA in one.follows & one.muted]
    for kind in (SetKind.OFF, SetKind.FIRST, SetKind.DIGEST, SetKind.ALL):
        sets[kind] = [m for m, one in people.items() if one.volume == str(kind)]
    for kind in (SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.OVERALL_DIGEST):
        sets[kind] = [m for m, one in people.items() if f"overall_{one.overall}" == str(kind)]
    if of.key.subject.kind is Kind.SELF:
        sets = {SetKind.FOLLOWERS: [m for m in people if name_of(m) == NOVA]}
    authors = from_offsets([m for m, one in people.items() if OF_EVE in one.follows])
    return ShardSets(
        sets={kind: from_offsets(some) for kind, some in sets.items()},
        mentioner_followers=None if of.restricted_to is None else authors,
    )


def viewer(member: Member, one: Relation) -> Viewer:
    return Viewer(
        user=name_of(member),
        follows={subject: NEVER if subject in one.muted else SINCE for subject in one.follows},
        blocked=(),
        volume={OF_NOVA: one.volume},
        marks=Marks(),
        overall=Overall(volume=one.overall),
    )


def oracle(people: Mapping[Member, Relation], of: Burst) -> tuple[Oracle, Seen]:
    key = (str(of.key.subject.kind), str(NOVA), 1)
    told = {
        str(name_of(m)): Person(
            name=name_of(m),
            member=m,
            follows={subject.owner: SINCE for subject in one.follows},
            muted=frozenset(subject.owner for subject in one.follows & one.muted),
            volume={} if one.volume is Volume.DEFAULT else {NOVA: str(one.volume)},
            overall=str(one.overall),
        )
        for m, one in people.items()
    }
    protected = of.restricted_to is not None
    tweets = {
        "t0": Tweet(id="t0", author="ada", mentioned=(NOVA,)),
        "t1": Tweet(id="t1", author=EVE, mentioned=(NOVA,), protected=protected),
    }
    seen = Seen(key=key, opened_at=of.opened_at, tweets=("t1",), standard=True)
    earlier = Seen(key=(key[0], key[1], 0), opened_at=of.opened_at - timedelta(seconds=1), tweets=("t0",))
    bursts = {seen.key: seen} if of.first_of_day else {seen.key: seen, earlier.key: earlier}
    return Oracle(people=told, tweets=tweets, bursts=bursts), seen


@given(st.dictionaries(st.integers(0, 5).map(Member), RELATIONS, min_size=1), BURSTS)
@settings(max_examples=300)
def test_whoever_gets_a_row_sees_the_burst_and_nobody_else_does(people: Mapping[Member, Relation], of: Burst) -> None:
    sealed = seal(of, 0, live(people, of))
    knows, seen = oracle(people, of)
    divided = knows.divide(seen, 0)
    for member, one in people.items():
        row = any(holds(sealed.tiers[tier], member) for tier in TIERS)
        assert visible(of, viewer(member, one), now=NOON) is row
        if of.restricted_to is None or not of.first_of_day:  # a protected author's is never the day's first
            assert any(member in some for some in divided.tiers.values()) is row
            assert knows.visible(knows.people[name_of(member)], seen, Marked(), NOON) is row
