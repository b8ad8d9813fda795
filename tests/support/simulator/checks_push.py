"""Checks that alerts went once to allowed users, with valid reasons for missing ones."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain

from notifier.domain.audience.bitmap import contains, members
from notifier.domain.delivery.ledger import BurstProgress, Fact
from notifier.domain.delivery.slice_and_pool import Slice, Step
from notifier.domain.ids import BurstKey, Member, Platform
from notifier.domain.push.alert import burst_alert, summary_alert
from notifier.domain.push.send_log import SendBatch, SendLogKey, SilentReason
from tests.support.simulator.oracle_input_reader import key_of
from tests.support.simulator.script import Failing, Fault, Killed, Outage, Part, Stalled, Wiped
from tests.support.simulator.simulation import Simulation

CAPS = ((timedelta(hours=1), 5), (timedelta(days=1), 20))
"""Maximum number of alerts of a user within any span of this length."""

AlertCounts = Counter[tuple[BurstKey, Member, Platform]]
Batches = list[tuple[SendLogKey, SendBatch]]


def alert_violations(simulation: Simulation) -> Iterator[str]:
    state = simulation.state
    alerts: AlertCounts = Counter((sent.burst, device.member, device.platform) for sent, device in state.phones.arrived)
    yield from simulation.push_observer.wrong
    yield from _with_wrong_collapse_id(simulation)
    for burst_progress in state.store_scan.burst_progress():
        yield from _finished_slices(simulation, burst_progress, alerts)
    alerted = _members_to_alert(simulation)
    yield from (
        f"{member} was alerted of {burst} without an audience snapshot"
        for burst, member, _ in sorted(alerts)
        if member not in alerted[burst]
    )
    batches: Batches = [(at, batch) for at, by_number in state.send_log.batches.items() for batch in by_number.values()]
    yield from chain(_wrong_reasons(simulation, batches, alerted), _over_cap(simulation, batches))


def _with_wrong_collapse_id(simulation: Simulation) -> Iterator[str]:
    bursts, state = simulation.state_reader.oracle().bursts, simulation.state
    for sent, _ in state.phones.arrived:
        opened = replace(state.bursts.by_key[sent.burst], tweet=bursts[key_of(sent.burst)].tweets[0])
        if sent.collapse_id not in (burst_alert(opened).collapse_id, summary_alert(opened, 2).collapse_id):
            yield f"an alert of {sent.burst} has another collapse id"


def _finished_slices(simulation: Simulation, burst_progress: BurstProgress, alerts: AlertCounts) -> Iterator[str]:
    """Check a finished push slice: every eligible user with a device was alerted, or a reason is recorded.

    A slice that was left to the pull path must have been too late.
    """
    snapshots = {
        snapshot.shard: snapshot
        for snapshot in simulation.state.store_scan.audience_snapshots(burst_progress.plan.burst)
    }
    always = simulation.push_observer.always(burst_progress.plan.burst)
    for slice_, progress in burst_progress.slice_states.items():
        if slice_.step is Step.ROWS or progress.final_entry is None:
            continue
        if (
            progress.final_entry.fact is Fact.PULLED
            and progress.final_entry.at < burst_progress.plan.opened_at + slice_.pool_timing.expires_after
        ):
            yield f"{slice_} was dropped before its time"
        for shard in set(slice_.shards) & set(snapshots):
            if progress.final_entry.fact is not Fact.DONE:
                continue
            batches = _batches(simulation, slice_, shard)
            platform = slice_.step.platform
            reached = always & simulation.population.members_with(platform)
            expected = {Member(m) for m in members(snapshots[shard].members_to_alert(slice_.tier), shard)} & reached
            if missing := {m for m in expected if not alerts[slice_.burst, m, platform]} - _recorded_as_silent(
                batches, shard
            ):
                yield f"{slice_} is done, and {sorted(missing)} were not alerted"
            if any(batch.is_open for batch in batches):
                yield f"{slice_} is done, and the outcome of some alerts is unknown"


def _batches(simulation: Simulation, slice_: Slice, shard: int) -> Sequence[SendBatch]:
    sending = SendLogKey(slice_.burst, slice_.tier, shard, slice_.step.platform)
    return simulation.state.send_log.read(slice_.burst, sending.platform, [shard]).get(sending, ())


def _recorded_as_silent(batches: Sequence[SendBatch], shard: int) -> set[Member]:
    """Return members whose alert is recorded as not sent or not accepted."""
    silent = {Member(m) for batch in batches for bits in batch.silent.values() for m in members(bits, shard)}
    return silent | {
        attempt.state.member for batch in batches for attempt in batch.failures or () if attempt.at is None
    }


def _members_to_alert(simulation: Simulation) -> Mapping[BurstKey, set[Member]]:
    """Return the members to alert by burst, as the audience snapshots have them."""
    members_by_burst = defaultdict[BurstKey, set[Member]](set)
    for burst_progress in simulation.state.store_scan.burst_progress():
        for snapshot in simulation.state.store_scan.audience_snapshots(burst_progress.plan.burst):
            members_by_burst[burst_progress.plan.burst] |= {
                Member(m) for m in members(snapshot.to_alert, snapshot.shard)
            }
    return members_by_burst


def _wrong_reasons(simulation: Simulation, batches: Batches, alerted: Mapping[BurstKey, set[Member]]) -> Iterator[str]:
    """Check that each recorded reason for not alerting a member is true."""
    for at, batch in batches:
        for why, bits in batch.silent.items():
            for member in map(Member, members(bits, at.shard)):
                other_bursts = [key for key in alerted if key != at.burst and member in alerted[key]]
                if why is SilentReason.COLLAPSED:
                    is_true = _is_in_newer_alert(simulation, at, member, batch.at)
                else:
                    is_true = _reason_is_true(simulation, why, at.burst, other_bursts, batch.at)
                if not is_true:
                    yield f"{member} was not alerted of {at.burst} for the false reason {why}"


def _reason_is_true(
    simulation: Simulation, why: SilentReason, burst: BurstKey, other_bursts: list[BurstKey], now: datetime
) -> bool:
    by_key, tweets = simulation.state.bursts.by_key, simulation.state_reader.oracle().bursts
    opened = {key: by_key[key].opened_at for key in [burst, *other_bursts]}
    match why:
        case SilentReason.HOURLY | SilentReason.DAILY:
            _, most = CAPS[why is SilentReason.DAILY]
            return sum(opened[key] <= now for key in other_bursts) >= most
        case SilentReason.SAME_TWEET:
            own = tweets[key_of(burst)].tweets
            return any(set(own) & set(tweets[key_of(key)].tweets) for key in other_bursts)
        case SilentReason.COLLAPSED:
            return False


def _is_in_newer_alert(simulation: Simulation, at: SendLogKey, member: Member, now: datetime) -> bool:
    """Whether an alert of a newer burst that includes this one was sent by then."""
    burst, by_key = at.burst, simulation.state.bursts.by_key
    for newer in (key for key in by_key if key.subject == burst.subject and key.seq > burst.seq):
        for batches in simulation.state.send_log.read(newer, at.platform, [at.shard]).values():
            sent = (batch for batch in batches if batch.at <= now and contains(batch.alerted, member))
            if any(burst.seq in batch.covered_by_alert(member) for batch in sent):
                return True
    return False


def _over_cap(simulation: Simulation, batches: Batches) -> Iterator[str]:
    """Check the frequency caps, except in runs in which Redis may have lost its counters.

    Runs in which a push worker died, stalled or failed are left out, too: it may record an alert late.
    """
    if any(isinstance(entry.what, Fault) and _loses_counts(entry.what) for entry in simulation.script.entries):
        return
    times = defaultdict[Member, dict[BurstKey, datetime]](dict)
    for at, batch in sorted(batches, key=lambda entry: entry[1].at):
        for member in map(Member, members(batch.alerted, at.shard)):
            times[member].setdefault(at.burst, batch.at)
    for member, by_burst in times.items():
        for now in by_burst.values():
            for span, most in CAPS:
                if (n := sum(now - span < at <= now for at in by_burst.values())) > most:
                    yield f"{member} was alerted {n} times within {span}, at {now}"


def _loses_counts(fault: Fault) -> bool:
    match fault:
        case Wiped() | Outage(part=Part.CACHE):
            return True
        case Killed(process=name) | Stalled(name=name) | Failing(thread=name):
            return name.startswith("push")
        case _:
            return False
