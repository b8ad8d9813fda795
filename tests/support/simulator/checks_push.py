"""The rung: each alert came once to each device, to people who may be told; who was not told is noted for a reason."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

from notifier.domain.audience.bitmap import holds, members
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice import Slice, Step
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.alert import alert, summary
from notifier.domain.push.send_log import Sending, Why, Window
from tests.support.simulator.script import Failing, Fault, Killed, Outage, Part, Stalled, Wiped
from tests.support.simulator.simulation import World
from tests.support.simulator.snapshot import key_of

CAPS = ((timedelta(hours=1), 5), (timedelta(days=1), 20))
"""Alerts of a person, in any span of that length."""

Told = Counter[tuple[BurstKey, Member, Platform]]
Windows = list[tuple[Sending, Window]]


def rung(world: World) -> Iterator[str]:
    ground = world.ground
    told: Told = Counter((sent.burst, device.member, device.platform) for sent, device in ground.phones.arrived)
    yield from world.ringing.wrong
    yield from _named(world)
    for account in ground.archive.accounts():
        yield from _done(world, account, told)
    alerted = _alerted(world)
    yield from (
        f"{member} was alerted of {burst} without a seal"
        for burst, member, _ in sorted(told)
        if member not in alerted[burst]
    )
    windows: Windows = [(at, window) for at, some in ground.sent.windows.items() for window in some.values()]
    yield from chain(_silent(world, windows, alerted), _capped(world, windows))


def _named(world: World) -> Iterator[str]:
    bursts, ground = world.sight.oracle().bursts, world.ground
    for sent, _ in ground.phones.arrived:
        opened = replace(ground.bursts.by_key[sent.burst], tweet=bursts[key_of(sent.burst)].tweets[0])
        if sent.collapse_id not in (alert(opened).collapse_id, summary(opened, 2).collapse_id):
            yield f"an alert of {sent.burst} has another collapse id"


def _done(world: World, account: BurstProgress, told: Told) -> Iterator[str]:
    """Phones that are done rang for all whom nothing spared it and who have one of that provider's, or it is noted of
    whom they didn't; what was left to the pull path was late."""
    seals = {seal.shard: seal for seal in world.ground.archive.seals(account.plan.burst)}
    always = world.ringing.always(account.plan.burst)
    for piece, standing in account.standings.items():
        if piece.step is Step.ROWS or standing.ended is None:
            continue
        if standing.ended.fact is Fact.PULLED and standing.ended.at < account.plan.opened_at + piece.terms.worth:
            yield f"{piece} was dropped before its time"
        for shard in set(piece.shards) & set(seals):
            if standing.ended.fact is not Fact.DONE:
                continue
            windows = _windows(world, piece, shard)
            platform = piece.step.platform
            reached = always & world.scene.reached_by(platform)
            wanted = {Member(m) for m in members(seals[shard].alerted(piece.tier), shard)} & reached
            if unheard := {m for m in wanted if not told[piece.burst, m, platform]} - _noted(windows, shard):
                yield f"{piece} is done, and {sorted(unheard)} were not alerted"
            if any(window.missed is None for window in windows):
                yield f"{piece} is done, and nobody knows what became of all it sent"


def _windows(world: World, piece: Slice, shard: int) -> Sequence[Window]:
    of = Sending(piece.burst, piece.tier, shard, piece.step.platform)
    return world.ground.sent.read(piece.burst, of.platform, [shard]).get(of, ())


def _noted(windows: Sequence[Window], shard: int) -> set[Member]:
    """Of whom it is noted that nothing was sent, or nothing taken."""
    silent = {Member(m) for window in windows for bits in window.silent.values() for m in members(bits, shard)}
    return silent | {one.tried.member for window in windows for one in window.missed or () if one.at is None}


def _alerted(world: World) -> Mapping[BurstKey, set[Member]]:
    """By the seals."""
    found = defaultdict[BurstKey, set[Member]](set)
    for account in world.ground.archive.accounts():
        for seal in world.ground.archive.seals(account.plan.burst):
            found[account.plan.burst] |= {Member(m) for m in members(seal.push, seal.shard)}
    return found


def _silent(world: World, windows: Windows, alerted: Mapping[BurstKey, set[Member]]) -> Iterator[str]:
    """Who is noted as not told could have been told of what is said to be in the way."""
    for at, window in windows:
        for why, bits in window.silent.items():
            for member in map(Member, members(bits, at.shard)):
                others = [key for key in alerted if key != at.burst and member in alerted[key]]
                if why is Why.COLLAPSED:
                    so = _collapsed(world, at, member, window.at)
                else:
                    so = _holds(world, why, at.burst, others, window.at)
                if not so:
                    yield f"{member} wasn't told of {at.burst}, which is said to be {why}, and isn't"


def _holds(world: World, why: Why, burst: BurstKey, others: list[BurstKey], now: datetime) -> bool:
    by_key, tweets = world.ground.bursts.by_key, world.sight.oracle().bursts
    opened = {key: by_key[key].opened_at for key in [burst, *others]}
    match why:
        case Why.HOURLY | Why.DAILY:
            _, most = CAPS[why is Why.DAILY]
            return sum(opened[key] <= now for key in others) >= most
        case Why.SAME_TWEET:
            own = tweets[key_of(burst)].tweets
            return any(set(own) & set(tweets[key_of(key)].tweets) for key in others)
        case Why.COLLAPSED:
            return False


def _collapsed(world: World, at: Sending, member: Member, now: datetime) -> bool:
    """The alert of a newer burst to that person's phones of the provider was sent by then, and names this one."""
    burst, by_key = at.burst, world.ground.bursts.by_key
    for newer in (key for key in by_key if key.subject == burst.subject and key.seq > burst.seq):
        for windows in world.ground.sent.read(newer, at.platform, [at.shard]).values():
            told = (one for one in windows if one.at <= now and holds(one.told, member))
            if any(burst.seq in one.tells(member) for one in told):
                return True
    return False


def _capped(world: World, windows: Windows) -> Iterator[str]:
    """Nobody is told too often, unless Redis, which counts, was away or had forgotten; who was counted and died, or
    slept, before he wrote so is counted sooner than it looks."""
    if any(isinstance(one.what, Fault) and _uncounts(one.what) for one in world.script.happenings):
        return
    times = defaultdict[Member, dict[BurstKey, datetime]](dict)
    for at, window in sorted(windows, key=lambda one: one[1].at):
        for member in map(Member, members(window.told, at.shard)):
            times[member].setdefault(at.burst, window.at)
    for member, found in times.items():
        for now in found.values():
            for span, most in CAPS:
                if (n := sum(now - span < at <= now for at in found.values())) > most:
                    yield f"{member} was alerted {n} times within {span}, at {now}"


def _uncounts(fault: Fault) -> bool:
    match fault:
        case Wiped() | Outage(part=Part.CACHE):
            return True
        case Killed(process=name) | Stalled(name=name) | Failing(thread=name):
            return name.startswith("push")
        case _:
            return False
