"""The bitmap audience, the visibility predicate and the oracle agree on who gets a burst."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.domain.audience.bitmap import contains, from_offsets
from notifier.domain.audience.snapshot import take_snapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, SetKind, ShardSets
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, Lane, Member, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferences
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.domain.users.visibility import Marks, Viewer, is_visible
from tests.support.domain_examples import EVE, HOUR, NOON, NOVA, OF_NOVA, SELF_NOVA, burst
from tests.support.oracle import InboxMarks, ObservedBurst, Oracle, Person, Tweet

SINCE = NOON - HOUR
EVE_MENTIONS = Subject(Kind.MENTION, EVE)
AUTHOR, MENTIONED = Member(0), Member(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Relation of one person to the mentioned account and to the author."""

    follows: frozenset[Subject]
    muted: frozenset[Subject]
    volume: Volume
    overall: Volume


RELATIONS = st.builds(
    Relation,
    follows=st.frozensets(st.sampled_from([OF_NOVA, EVE_MENTIONS])),
    muted=st.frozensets(st.sampled_from([OF_NOVA, EVE_MENTIONS])),
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


def indexed_sets(people: Mapping[Member, Relation], burst_: Burst) -> ShardSets:
    """Return the member sets that the indexer would store. A mute is an entry beside the follow."""
    sets = {SetKind.FOLLOWERS: [m for m, relation in people.items() if OF_NOVA in relation.follows]}
    sets[SetKind.MUTED] = [m for m, relation in people.items() if OF_NOVA in relation.follows & relation.muted]
    for kind in (SetKind.OFF, SetKind.FIRST, SetKind.DIGEST, SetKind.ALL):
        sets[kind] = [m for m, relation in people.items() if relation.volume == str(kind)]
    for kind in (SetKind.OVERALL_OFF, SetKind.OVERALL_FIRST, SetKind.OVERALL_DIGEST):
        sets[kind] = [m for m, relation in people.items() if f"overall_{relation.overall}" == str(kind)]
    if burst_.key.subject.kind is Kind.SELF:
        sets = {SetKind.FOLLOWERS: [m for m in people if name_of(m) == NOVA]}
    authors = from_offsets([m for m, relation in people.items() if EVE_MENTIONS in relation.follows])
    return ShardSets(
        sets={kind: from_offsets(members) for kind, members in sets.items()},
        mentioner_followers=None if burst_.restricted_to is None else authors,
    )


def viewer(member: Member, relation: Relation) -> Viewer:
    return Viewer(
        user=name_of(member),
        follows={subject: NEVER if subject in relation.muted else SINCE for subject in relation.follows},
        blocked=(),
        volume={OF_NOVA: relation.volume},
        marks=Marks(),
        account_preferences=AccountPreferences(volume=relation.overall),
    )


def oracle_of(people: Mapping[Member, Relation], burst_: Burst) -> tuple[Oracle, ObservedBurst]:
    key = (str(burst_.key.subject.kind), str(NOVA), 1)
    people_ = {
        str(name_of(m)): Person(
            name=name_of(m),
            member=m,
            follows={subject.owner: SINCE for subject in relation.follows},
            muted=frozenset(subject.owner for subject in relation.follows & relation.muted),
            volume={} if relation.volume is Volume.DEFAULT else {NOVA: str(relation.volume)},
            overall=str(relation.overall),
        )
        for m, relation in people.items()
    }
    protected = burst_.restricted_to is not None
    tweets = {
        "t0": Tweet(id="t0", author="ada", mentioned=(NOVA,)),
        "t1": Tweet(id="t1", author=EVE, mentioned=(NOVA,), protected=protected),
    }
    seen = ObservedBurst(key=key, opened_at=burst_.opened_at, tweets=("t1",), standard=True)
    earlier_burst = ObservedBurst(
        key=(key[0], key[1], 0), opened_at=burst_.opened_at - timedelta(seconds=1), tweets=("t0",)
    )
    bursts = {seen.key: seen} if burst_.first_of_day else {seen.key: seen, earlier_burst.key: earlier_burst}
    return Oracle(people=people_, tweets=tweets, bursts=bursts), seen


@given(st.dictionaries(st.integers(0, 5).map(Member), RELATIONS, min_size=1), BURSTS)
@settings(max_examples=150)
def test_exactly_the_members_with_a_row_see_the_burst(people: Mapping[Member, Relation], burst_: Burst) -> None:
    snapshot = take_snapshot(burst_, 0, indexed_sets(people, burst_))
    model, seen = oracle_of(people, burst_)
    divided = model.divide(seen, 0)
    for member, relation in people.items():
        has_row = any(contains(snapshot.tiers[tier], member) for tier in TIERS)
        assert is_visible(burst_, viewer(member, relation), now=NOON) is has_row
        if burst_.restricted_to is None or not burst_.first_of_day:  # protected bursts are never first
            assert any(member in members for members in divided.tiers.values()) is has_row
            assert model.visible(model.people[name_of(member)], seen, InboxMarks(), NOON) is has_row
