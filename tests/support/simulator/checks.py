"""The judge: after a run, every promise against what stands in the ground, as the oracle computes it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import chain, product

from notifier import topics
from notifier.domain.audience.bitmap import members, nobody, shard_of
from notifier.domain.audience.inbox_rows import RANGE_MEMBERS
from notifier.domain.audience.snapshot import Seal
from notifier.domain.audience.tiers import TIERS, SetKind
from notifier.domain.delivery.accounting import books
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice import Step
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId
from notifier.domain.users.account_preferences import OF_OVERALLS
from notifier.domain.users.subject_preferences import OF_WANTS
from notifier.flow.inbox.inbox import Tab
from tests.support.fakes.pull_index import MemoryPullIndex
from tests.support.oracle import Division, Key, Marked, Oracle, Seen, State
from tests.support.simulator.cast import BUDGETED, SHARDS
from tests.support.simulator.checks_push import rung
from tests.support.simulator.inbox_visits import driven
from tests.support.simulator.script import Script
from tests.support.simulator.seal_observer import misplaced
from tests.support.simulator.simulation import World
from tests.support.simulator.snapshot import Sight, key_of

# Leftovers: what bursts say once something of them was taken back, held against what the oracle leaves of them.


def left_over(sight: Sight) -> Iterator[str]:
    """Of every burst the count, the names and the text are those of what stands, and of nothing else; and nothing that
    is held, or was, has words of who was erased."""
    oracle = sight.oracle()
    erased = [word for word in oracle.words if word.what == "erase"]
    for hold in sight.ground.holds.by_event.values():
        tweet = oracle.tweets[hold.id.id]
        if hold.event and hold.event.text and any(word.of(tweet) for word in erased):
            yield f"{hold.id.id} is held with the words of {hold.author}, who was erased"
    yield from oracle.leaving()
    for burst in sight.ground.bursts.by_key.values():
        seen = oracle.bursts[key_of(burst.key)]
        left = oracle.left(seen)
        authors = {oracle.tweets[id].author for id in left}
        few = 1 if seen.left_to and left else len(left)  # some may have left before the last public one
        if not few <= burst.count <= len(left):
            yield f"{burst.key} says {burst.count} mentions and has {len(left)}"
        if left and set(burst.mentioners) != authors:
            yield f"{burst.key} names {burst.mentioners}, and should name {sorted(authors)}"
        if burst.text != (oracle.text(burst.tweet) if left else "") or (left and burst.tweet not in left):
            yield f"{burst.key} says {burst.text!r} of {burst.tweet}, and {left} stand"
        if burst.silent != oracle.silent(seen):
            yield f"{burst.key} says silent: {burst.silent}"
    for (key, event), mention in sight.ground.bursts.mentions.items():
        gone = oracle.state(event.id, key.subject.owner) is State.GONE
        if mention.retracted != gone or mention.text != ("" if gone else oracle.text(event.id)):
            yield f"{event.id} is kept in {key} as {mention.text!r}, retracted: {mention.retracted}"


COLLAPSE = timedelta(seconds=60)
GROUPS = {
    topics.MENTIONS: "router",
    topics.MENTIONS_CELEBRITY: "coordinator",
    topics.MENTIONS_STANDARD: "coordinator",
    topics.FOLLOWS: "indexer",
    topics.RETRACTIONS: "retractor",
    topics.DEVICES: "switchboard",
}


def played(script: Script) -> World:
    """Run the script to its end, and assert that every promise was kept."""
    world = World(script)
    world.run()
    assert verdict(world) == [], "\n".join(f"{step} {text}" for step, _, text in world.scheduler.story)
    return world


def verdict(world: World) -> list[str]:
    """What is wrong, in plain words; nothing when every promise was kept."""
    if not world.quiet:
        return [*world.visits.wrong, "it never becomes quiet:", *world.waiting()]
    return list(
        chain(
            world.visits.wrong,
            world.complaints.found,
            world.visits.swallowed(),
            world.watching.wrong,
            _sequenced(world),
            left_over(world.sight),
            _lanes(world),
            _indexed(world) if world.script.graph else (),
            _arranged(world),
            _connected(world) if world.script.devices else (),
            _committed(world),
            _no_deaths(world),
            _delivered(world),
            rung(world),
            _tabs(world),
        )
    )


def _sequenced(world: World) -> Iterator[str]:
    oracle = world.sight.oracle()
    yield from oracle.sequencing(world.accepted)
    window = COLLAPSE if world.script.collapse is None else world.script.collapse
    yield from oracle.spacing(window, BUDGETED)
    yield from oracle.sparing(BUDGETED)
    for burst in world.ground.bursts.by_key.values():
        seen = oracle.bursts[key_of(burst.key)]
        if burst.first_of_day != oracle.first_of_day(seen):
            yield f"{burst.key} says first of the day: {burst.first_of_day}"


def _lanes(world: World) -> Iterator[str]:
    """By some size that the account has had, for routers look at different moments; who is claimed nothing is small."""
    for key, seen in world.sight.oracle().bursts.items():
        sizes = world.scene.claimed.get(key[1], [0]) if key[0] == "mention" else [1]
        may = {n < world.script.threshold for n in sizes}
        if seen.standard not in may:
            yield f"{key} is in the lane of another size than {sizes}"


def _indexed(world: World) -> Iterator[str]:
    """Heads and bitmaps are what all that was said comes to."""
    people, sets = world.scene.people.values(), world.ground.sets
    for owner in sorted({owner for p in people for owner in (*p.follows, *p.muted, *p.volume)}):
        subject = Subject(Kind.MENTION, UserId(owner))
        head = dict(enumerate(sets.head(subject).counts))
        wanted = {kind: {p.member for p in people if p.volume.get(owner) == str(kind)} for kind in OF_WANTS}
        wanted |= {SetKind.MUTED: {p.member for p in people if owner in p.muted}}
        wanted |= {SetKind.FOLLOWERS: {p.member for p in people if owner in p.follows}}
        for kind, shard in product(wanted, range(SHARDS)):
            found = set(members(sets.read(kind, subject, [shard]).get(shard, nobody()), shard))
            if found != (right := {member for member in wanted[kind] if shard_of(Member(member)) == shard}):
                yield f"the bitmap {kind} of {subject} has {sorted(found)}, and should have {sorted(right)}"
            if kind is SetKind.FOLLOWERS and head.get(shard, 0) != len(found):
                yield f"the head of {subject} says {head.get(shard, 0)} of shard {shard}, where {len(found)} are"


def _arranged(world: World) -> Iterator[str]:
    """The same of what people say of everything."""
    people = world.scene.people.values()
    wanted = {kind: {p.member for p in people if f"overall_{p.overall}" == str(kind)} for kind in OF_OVERALLS}
    wanted |= {SetKind.NO_PUSH: {p.member for p in people if not p.alerts}}
    wanted |= {SetKind.ASKED: {p.member for p in people if p.asked}}
    for kind, shard in product(wanted, range(SHARDS)):
        found = set(members(world.ground.sets.read(kind, None, [shard]).get(shard, nobody()), shard))
        if found != (right := {member for member in wanted[kind] if shard_of(Member(member)) == shard}):
            yield f"the bitmap {kind} has {sorted(found)}, and should have {sorted(right)}"


def _connected(world: World) -> Iterator[str]:
    """Devices are whose the last word says, and the bitmap has who has one."""
    people = world.scene.people.values()
    for shard in range(SHARDS):
        found = set(members(world.ground.sets.read(SetKind.PUSH, None, [shard]).get(shard, nobody()), shard))
        if found != (right := {p.member for p in people if p.push and shard_of(Member(p.member)) == shard}):
            yield f"the bitmap push has {sorted(found)}, and should have {sorted(right)}"
    said = sorted(world.scene.rumours.phoned(), key=lambda one: (one.rank, one.has))
    last = {one.device: one.person if one.has else None for one in said}
    rows = world.ground.devices.of([Member(p.member) for p in people])
    held = {(name.name, device.id) for name in people for device in rows.get(Member(name.member), ())}
    if held != (wanted := {(person, device) for device, person in last.items() if person}):
        yield f"devices are of {sorted(held)}, and should be of {sorted(wanted)}"


def _committed(world: World) -> Iterator[str]:
    """All that was read is committed: a fresh reader finds nothing."""
    world.ground.clock.advance(timedelta(seconds=30))
    for stream, group in GROUPS.items():
        for left in world.ground.log.subscribe(stream, group, "judge").poll(1_000, timedelta(0)):
            yield f"{left.partition}/{left.offset} was never committed"


def _no_deaths(world: World) -> Iterator[str]:
    for letter in world.ground.dead_letters.list(5):
        yield f"{letter.id} died in {letter.stage}: {letter.cause}"


def _delivered(world: World) -> Iterator[str]:
    oracle = world.sight.oracle()
    rows = _rows(world)
    for account in world.ground.archive.accounts():
        seals = list(world.ground.archive.seals(account.plan.burst))
        seen = oracle.bursts[key_of(account.plan.burst)]
        yield from _ended(account)
        for seal in seals:
            yield from _sealed(world, oracle, seen, seal, account.plan.burst)
        yield from _balanced(account, seals)
        yield from _planned(world, oracle, seen, seals)
        yield from _written(account, seals, rows)
    yield from (f"{member} has {n} rows of {key} in {tier}" for (key, tier, member), n in rows.items() if n > 1)
    for stored in world.ground.archive.rows():
        if stored.row.opened_at != world.ground.bursts.by_key[stored.row.burst].opened_at:
            yield f"a row of {stored.row.burst} stands at {stored.row.opened_at}"
    unplanned = set(world.ground.bursts.by_key) - set(world.ground.ledger.planned())
    yield from (f"{key} has no plan" for key in unplanned)


def _ended(account: BurstProgress) -> Iterator[str]:
    yield from (f"{piece} hasn't ended" for piece, one in account.standings.items() if one.ended is None)


def _sealed(world: World, oracle: Oracle, seen: Seen, seal: Seal, burst: BurstKey) -> Iterator[str]:
    """The seal is what was so when its maker read the sets; what was on its way then may have come or not."""
    found = Division(
        tiers={str(tier): frozenset(members(seal.tiers[tier], seal.shard)) for tier in TIERS},
        dormant=seal.dormant,
        suppressed=sum(seal.suppressed.values()),
        push=frozenset(members(seal.push, seal.shard)),
    )
    possible = world.watching.sealed[burst, seal.shard]
    opened = replace(seen, left_to="")
    for text in misplaced(oracle, found, {opened.left_to: opened, seen.left_to: seen}.values(), seal.shard, possible):
        yield f"the seal of {seen.key}, shard {seal.shard}, is not what was said then: {text}"


def _balanced(account: BurstProgress, seals: list[Seal]) -> Iterator[str]:
    sums = books(account, [seal.tally() for seal in seals], throttles=(), now=account.plan.opened_at)
    if not sums.balanced or sums.in_flight or sums.parked or sums.dead:
        yield f"the books of {account.plan.burst} don't balance: {sums}"
    shards = {shard for first, last in account.plan.ranges for shard in range(first, last + 1)}
    if shards - {seal.shard for seal in seals}:
        yield f"{account.plan.burst} has unsealed shards: {sorted(shards - {seal.shard for seal in seals})}"


def _planned(world: World, oracle: Oracle, seen: Seen, seals: list[Seal]) -> Iterator[str]:
    """Every shard that has somebody to reach has a seal; of a burst that is pulled alone, none has."""
    sealed = {seal.shard for seal in seals}
    if seen.spared and sealed:
        yield f"{seen.key} is not to be fanned out, and has seals of {sorted(sealed)}"
    if seen.spared or len(world.scene.history) > 1:
        return
    for shard in set(range(SHARDS)) - sealed:
        if any(oracle.divide(replace(seen, left_to=""), shard).tiers.values()):
            yield f"{seen.key} reaches people of shard {shard}, and was never planned for it"


def _written(account: BurstProgress, seals: list[Seal], rows: Counter[tuple[BurstKey, str, int]]) -> Iterator[str]:
    by_shard = {seal.shard: seal for seal in seals}
    burst = account.plan.burst
    allowed: set[int] = set()
    for piece, standing in account.standings.items():
        if piece.step is not Step.ROWS or standing.ended is None:
            continue
        for shard in piece.shards:
            wanted = set(members(by_shard[shard].tiers[piece.tier], shard)) if shard in by_shard else set()
            allowed |= wanted
            missing = [m for m in wanted if (burst, str(piece.tier), m) not in rows]
            if missing and standing.ended.fact is Fact.DONE:
                yield f"{piece} is done, and has no rows for {missing}"
    for key, tier, member in rows:
        if key == burst and member not in allowed:
            yield f"{member} has a row of {burst} in {tier} that no seal knows"


def _rows(world: World) -> Counter[tuple[BurstKey, str, int]]:
    found: Counter[tuple[BurstKey, str, int]] = Counter()
    for stored in world.ground.archive.rows():
        row, first = stored.row, stored.member_range * RANGE_MEMBERS
        found.update((row.burst, str(row.tier), first + place) for place in row.places().tolist())
    return found


def _tabs(world: World) -> Iterator[str]:
    """Everybody's list and badge at one moment: with the index, without one, and in small pages."""
    ground, oracle = world.ground, world.sight.oracle()
    for name, index in (("the index", ground.pull), ("an empty index", MemoryPullIndex(ground.clock))):
        tab = Tab(people=ground.people, timeline=ground.timeline, pull=index, clock=ground.clock)
        for person in sorted(name for name in oracle.people if not oracle.people[name].deleted):
            marked = world.visits.marked.get(person, Marked())
            wanted = oracle.list(person, marked, ground.clock.now())
            unread = [key for key in wanted if oracle.unread(oracle.placed(key), marked)]
            shown, unread_shown, badge = _walked(tab, person)
            if shown != wanted:
                yield f"{person} sees {shown} by {name}, and must see {wanted}"
            if unread_shown != unread or badge != len(unread):
                yield f"{person} has a badge of {badge} and {unread_shown} by {name}, and must have {unread}"


def _walked(tab: Tab, person: str) -> tuple[list[Key], list[Key], int]:
    user = UserId(person)
    page, badge = driven(tab.open(user, limit=3))
    items = list(page.items)
    while page.next is not None:
        page = driven(tab.page(user, after=page.next, limit=3))
        items += page.items
    shown = [key_of(item.entry.key) for item in items]
    return shown, [key_of(item.entry.key) for item in items if item.unread], badge.count if badge else -1
