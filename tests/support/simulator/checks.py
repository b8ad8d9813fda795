"""Checks all invariants after a run, comparing the durable state with the oracle."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain, product

from notifier import topics
from notifier.domain.audience.bitmap import members, no_members, shard_of
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, SetKind
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.recipient_totals_and_progress import recipient_totals
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import ACCOUNT_PREFERENCE_SETS
from notifier.domain.users.subject_preferences import SUBJECT_PREFERENCE_SETS
from notifier.flow.inbox.inbox import UncachedInbox
from tests.support.fakes.pull_index import MemoryPullIndex
from tests.support.oracle import InboxMarks, Key, ObservedBurst, Oracle, ShardTiers, State
from tests.support.simulator.audience_snapshot_observer import snapshot_contradictions
from tests.support.simulator.checks_push import alert_violations
from tests.support.simulator.inbox_visits import run_sync
from tests.support.simulator.oracle_input_reader import StateReader, key_of
from tests.support.simulator.population import BUDGETED, SHARDS
from tests.support.simulator.script import Script
from tests.support.simulator.simulation import Simulation

# Content of bursts after retractions, compared with what the oracle leaves.


def content_violations(state_reader: StateReader) -> Iterator[str]:
    """Check the content of bursts and mentions, and that held mentions have no text of erased authors."""
    oracle = state_reader.oracle()
    erasures = [retraction for retraction in oracle.retractions if retraction.kind == "erase"]
    for hold in state_reader.state.held_mentions.by_event.values():
        tweet = oracle.tweets[hold.id.id]
        if hold.event and hold.event.text and any(retraction.applies_to(tweet) for retraction in erasures):
            yield f"{hold.id.id} is held with the text of {hold.author}, an erased author"
    yield from oracle.restriction_violations()
    for burst in state_reader.state.bursts.by_key.values():
        observed = oracle.bursts[key_of(burst.key)]
        visible = oracle.visible_tweets(observed)
        authors = {oracle.tweets[id].author for id in visible}
        # A burst that is left to one author's followers may have lost mentions before its last public one.
        least = 1 if observed.left_to and visible else len(visible)
        if not least <= burst.count <= len(visible):
            yield f"{burst.key} says {burst.count} mentions and has {len(visible)}"
        if visible and set(burst.mentioners) != authors:
            yield f"{burst.key} names {burst.mentioners}, and should name {sorted(authors)}"
        if burst.text != (oracle.text(burst.tweet) if visible else "") or (visible and burst.tweet not in visible):
            yield f"{burst.key} says {burst.text!r} of {burst.tweet}, and only {visible} remain"
        if burst.silent != oracle.silent(observed):
            yield f"{burst.key} says silent: {burst.silent}"
    for (key, event), mention in state_reader.state.bursts.mentions.items():
        is_gone = oracle.state(event.id, key.subject.owner) is State.GONE
        if mention.retracted != is_gone or mention.text != ("" if is_gone else oracle.text(event.id)):
            yield f"{event.id} is kept in {key} as {mention.text!r}, retracted: {mention.retracted}"


COLLAPSE = timedelta(seconds=60)
GROUPS = {
    topics.MENTIONS: "router",
    topics.MENTIONS_CELEBRITY: "coordinator",
    topics.MENTIONS_STANDARD: "coordinator",
    topics.FOLLOWS: "graph_indexer",
    topics.RETRACTIONS: "retractor",
    topics.DEVICES: "device_indexer",
}


def run_and_check(script: Script) -> Simulation:
    """Run the script to its end and assert that every promise held."""
    simulation = Simulation(script)
    simulation.run()
    assert violations_of(simulation) == [], "\n".join(f"{step} {text}" for step, _, text in simulation.scheduler.story)
    return simulation


def violations_of(simulation: Simulation) -> list[str]:
    """Return all violations; empty if every promise held."""
    if not simulation.is_drained:
        return [*simulation.visits.wrong, "the work never ends:", *simulation.waiting()]
    return list(
        chain(
            simulation.visits.wrong,
            simulation.logged_errors.messages,
            simulation.visits.hidden_by_tokens(),
            simulation.snapshot_observer.wrong,
            _sequenced(simulation),
            content_violations(simulation.state_reader),
            _lanes(simulation),
            _indexed(simulation) if simulation.script.graph else (),
            _arranged(simulation),
            _connected(simulation) if simulation.script.devices else (),
            _committed(simulation),
            _no_deaths(simulation),
            _delivered(simulation),
            alert_violations(simulation),
            _inboxes(simulation),
        )
    )


def _sequenced(simulation: Simulation) -> Iterator[str]:
    oracle = simulation.state_reader.oracle()
    yield from oracle.sequencing_violations(simulation.accepted)
    window = COLLAPSE if simulation.script.collapse is None else simulation.script.collapse
    yield from oracle.spacing_violations(window, BUDGETED)
    yield from oracle.pull_only_violations(BUDGETED)
    for burst in simulation.state.bursts.by_key.values():
        observed = oracle.bursts[key_of(burst.key)]
        if burst.first_of_day != oracle.first_of_day(observed):
            yield f"{burst.key} says first of the day: {burst.first_of_day}"


def _lanes(simulation: Simulation) -> Iterator[str]:
    """Check each lane against the sizes that the account has had, because routers may read different ones.

    An account without a claimed size is small.
    """
    for key, observed in simulation.state_reader.oracle().bursts.items():
        sizes = simulation.population.claimed.get(key[1], [0]) if key[0] == "mention" else [1]
        may = {n < simulation.script.threshold for n in sizes}
        if observed.standard not in may:
            yield f"{key} is in the lane of another size than {sizes}"


def _indexed(simulation: Simulation) -> Iterator[str]:
    """Check that follower counts and bitmaps are the result of all updates."""
    people, sets = simulation.population.people.values(), simulation.state.sets
    for owner in sorted({owner for p in people for owner in (*p.follows, *p.muted, *p.volume)}):
        subject = Subject(Kind.MENTION, UserId(owner))
        counts = dict(enumerate(sets.follower_counts(subject).by_shard))
        expected = {
            kind: {p.member for p in people if p.volume.get(owner) == str(kind)} for kind in SUBJECT_PREFERENCE_SETS
        }
        expected |= {SetKind.MUTED: {p.member for p in people if owner in p.muted}}
        expected |= {SetKind.FOLLOWERS: {p.member for p in people if owner in p.follows}}
        for kind, shard in product(expected, range(SHARDS)):
            actual = set(members(sets.read(kind, subject, [shard]).get(shard, no_members()), shard))
            if actual != (
                expected_members := {member for member in expected[kind] if shard_of(Member(member)) == shard}
            ):
                yield f"the bitmap {kind} of {subject} has {sorted(actual)}, and should have {sorted(expected_members)}"
            if kind is SetKind.FOLLOWERS and counts.get(shard, 0) != len(actual):
                yield f"{subject} counts {counts.get(shard, 0)} followers in shard {shard}, and has {len(actual)}"


def _arranged(simulation: Simulation) -> Iterator[str]:
    """Check the bitmaps of account-wide preferences."""
    people = simulation.population.people.values()
    expected = {
        kind: {p.member for p in people if f"overall_{p.overall}" == str(kind)} for kind in ACCOUNT_PREFERENCE_SETS
    }
    expected |= {SetKind.NO_PUSH: {p.member for p in people if not p.alerts}}
    expected |= {SetKind.PUSH_OPT_IN: {p.member for p in people if p.asked}}
    for kind, shard in product(expected, range(SHARDS)):
        actual = set(members(simulation.state.sets.read(kind, None, [shard]).get(shard, no_members()), shard))
        if actual != (expected_members := {member for member in expected[kind] if shard_of(Member(member)) == shard}):
            yield f"the bitmap {kind} has {sorted(actual)}, and should have {sorted(expected_members)}"


def _connected(simulation: Simulation) -> Iterator[str]:
    """Check that the newest update decides whose each device is, and that the bitmap has exactly the device owners."""
    people = simulation.population.people.values()
    for shard in range(SHARDS):
        actual = set(
            members(simulation.state.sets.read(SetKind.WITH_DEVICE, None, [shard]).get(shard, no_members()), shard)
        )
        if actual != (expected_members := {p.member for p in people if p.push and shard_of(Member(p.member)) == shard}):
            yield f"the bitmap push has {sorted(actual)}, and should have {sorted(expected_members)}"
    updates = sorted(
        simulation.population.in_flight_changes.device_updates(), key=lambda update: (update.rank, update.is_registered)
    )
    owners = {update.device: update.person if update.is_registered else None for update in updates}
    rows = simulation.state.devices.by_member([Member(p.member) for p in people])
    registered = {(person.name, device.id) for person in people for device in rows.get(Member(person.member), ())}
    if registered != (expected_devices := {(person, device) for device, person in owners.items() if person}):
        yield f"devices are of {sorted(registered)}, and should be of {sorted(expected_devices)}"


def _committed(simulation: Simulation) -> Iterator[str]:
    """Check that everything is committed: a new reader receives no record."""
    simulation.state.clock.advance(timedelta(seconds=30))
    for stream, group in GROUPS.items():
        for logged in simulation.state.log.subscribe(stream, group, "checks").poll(1_000, timedelta(0)):
            yield f"{logged.partition}/{logged.offset} was never committed"


def _no_deaths(simulation: Simulation) -> Iterator[str]:
    for dead_letter in simulation.state.dead_letters.list(5):
        yield f"{dead_letter.id} died in {dead_letter.stage}: {dead_letter.cause}"


def _delivered(simulation: Simulation) -> Iterator[str]:
    oracle = simulation.state_reader.oracle()
    rows = _rows(simulation)
    for burst_progress in simulation.state.store_scan.burst_progress():
        snapshots = list(simulation.state.store_scan.audience_snapshots(burst_progress.plan.burst))
        observed = oracle.bursts[key_of(burst_progress.plan.burst)]
        yield from _ended(burst_progress)
        for snapshot in snapshots:
            yield from _consistent_snapshot(simulation, oracle, observed, snapshot, burst_progress.plan.burst)
        yield from _balanced(burst_progress, snapshots)
        yield from _planned(simulation, oracle, observed, snapshots)
        yield from _written(burst_progress, snapshots, rows)
    yield from (f"{member} has {n} rows of {key} in {tier}" for (key, tier, member), n in rows.items() if n > 1)
    for stored in simulation.state.store_scan.rows():
        if stored.row.opened_at != simulation.state.bursts.by_key[stored.row.burst].opened_at:
            yield f"a row of {stored.row.burst} has the time {stored.row.opened_at}"
    unplanned = set(simulation.state.bursts.by_key) - set(simulation.state.ledger.planned())
    yield from (f"{key} has no plan" for key in unplanned)


def _ended(burst_progress: BurstProgress) -> Iterator[str]:
    yield from (
        f"{slice_} hasn't ended"
        for slice_, progress in burst_progress.slice_states.items()
        if progress.final_entry is None
    )


def _consistent_snapshot(
    simulation: Simulation, oracle: Oracle, observed: ObservedBurst, snapshot: AudienceSnapshot, burst: BurstKey
) -> Iterator[str]:
    """Check an audience snapshot against the sets as its worker read them.

    Changes in flight may or may not be included.
    """
    actual = ShardTiers(
        tiers={str(tier): frozenset(members(snapshot.tiers[tier], snapshot.shard)) for tier in TIERS},
        dormant=snapshot.dormant_count,
        suppressed=sum(snapshot.suppressed_counts.values()),
        push=frozenset(members(snapshot.to_alert, snapshot.shard)),
    )
    possible = simulation.snapshot_observer.possible_by_shard[burst, snapshot.shard]
    opened = replace(observed, left_to="")
    for text in snapshot_contradictions(
        oracle, actual, {opened.left_to: opened, observed.left_to: observed}.values(), snapshot.shard, possible
    ):
        yield f"the snapshot of {observed.key}, shard {snapshot.shard}, doesn't fit the sets that were read: {text}"


def _balanced(burst_progress: BurstProgress, snapshots: list[AudienceSnapshot]) -> Iterator[str]:
    sums = recipient_totals(
        burst_progress,
        [snapshot.counts() for snapshot in snapshots],
        throttle_ids=(),
        now=burst_progress.plan.opened_at,
    )
    if not sums.is_balanced or sums.in_flight or sums.parked or sums.dead:
        yield f"the totals of {burst_progress.plan.burst} don't balance: {sums}"
    shards = {shard for first, last in burst_progress.plan.shard_spans for shard in range(first, last + 1)}
    if shards - {snapshot.shard for snapshot in snapshots}:
        missing = sorted(shards - {snapshot.shard for snapshot in snapshots})
        yield f"{burst_progress.plan.burst} has shards without an audience snapshot: {missing}"


def _planned(
    simulation: Simulation, oracle: Oracle, observed: ObservedBurst, snapshots: list[AudienceSnapshot]
) -> Iterator[str]:
    """Check that every shard with recipients has an audience snapshot, unless users changed meanwhile.

    A pull-only burst has none.
    """
    stored = {snapshot.shard for snapshot in snapshots}
    if observed.pull_only and stored:
        yield f"{observed.key} is not to be fanned out, and has audience snapshots of {sorted(stored)}"
    if observed.pull_only or len(simulation.population.history) > 1:
        return
    for shard in set(range(SHARDS)) - stored:
        if any(oracle.divide(replace(observed, left_to=""), shard).tiers.values()):
            yield f"{observed.key} reaches people of shard {shard}, and was never planned for it"


def _written(
    burst_progress: BurstProgress, snapshots: list[AudienceSnapshot], rows: Counter[tuple[BurstKey, str, int]]
) -> Iterator[str]:
    by_shard = {snapshot.shard: snapshot for snapshot in snapshots}
    burst = burst_progress.plan.burst
    allowed: set[int] = set()
    for slice_, progress in burst_progress.slice_states.items():
        if slice_.step is not Step.ROWS or progress.final_entry is None:
            continue
        for shard in slice_.shards:
            expected = set(members(by_shard[shard].tiers[slice_.tier], shard)) if shard in by_shard else set()
            allowed |= expected
            missing = [m for m in expected if (burst, str(slice_.tier), m) not in rows]
            if missing and progress.final_entry.fact is Fact.DONE:
                yield f"{slice_} is done, and has no rows for {missing}"
    for key, tier, member in rows:
        if key == burst and member not in allowed:
            yield f"{member} has a row of {burst} in {tier} that is in no audience snapshot"


def _rows(simulation: Simulation) -> Counter[tuple[BurstKey, str, int]]:
    counts: Counter[tuple[BurstKey, str, int]] = Counter()
    for stored in simulation.state.store_scan.rows():
        row, first = stored.row, stored.member_range * RANGE_MEMBERS
        counts.update((row.burst, str(row.tier), first + place) for place in row.offsets().tolist())
    return counts


def _inboxes(simulation: Simulation) -> Iterator[str]:
    """Check every user's list and badge: with the index, without one, and in small pages."""
    state, oracle = simulation.state, simulation.state_reader.oracle()
    for index_name, index in (("the index", state.pull), ("an empty index", MemoryPullIndex(state.clock))):
        tab = UncachedInbox(people=state.people, timeline=state.timeline, pull=index, clock=state.clock)
        for person in sorted(name for name in oracle.people if not oracle.people[name].deleted):
            marked = simulation.visits.marked.get(person, InboxMarks())
            expected = oracle.list(person, marked, state.clock.now())
            unread = [key for key in expected if oracle.unread(oracle.entry_of(key), marked)]
            shown, unread_shown, badge = _walked(tab, person)
            if shown != expected:
                yield f"{person} sees {shown} by {index_name}, and must see {expected}"
            if unread_shown != unread or badge != len(unread):
                yield f"{person} has a badge of {badge} and {unread_shown} by {index_name}, and must have {unread}"


def _walked(tab: UncachedInbox, person: str) -> tuple[list[Key], list[Key], int]:
    user = UserId(person)
    page, badge = run_sync(tab.open(user, limit=3))
    items = list(page.items)
    while page.next is not None:
        page = run_sync(tab.page(user, after=page.next, limit=3))
        items += page.items
    shown = [key_of(item.entry.key) for item in items]
    return shown, [key_of(item.entry.key) for item in items if item.unread], badge.count if badge else -1
