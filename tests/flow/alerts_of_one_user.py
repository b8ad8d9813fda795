"""Kim's alerts, during quiet hours and otherwise, and slices worked burst by burst."""

from dataclasses import replace
from datetime import time, timedelta

from notifier.domain.audience.bitmap import contains
from notifier.domain.delivery.slice_and_pool import PUSH_STEPS, Pool
from notifier.domain.ids import BurstKey, Kind, Member, Platform, Subject, UserId
from notifier.domain.push.alert import MentionAlert, SummaryAlert
from notifier.domain.push.device import AppleToken, Device
from notifier.domain.push.send_log import SendBatch
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.quiet_hours import QuietHours
from notifier.wiring.delivery import build_slice_worker
from tests.support.in_memory_system import NOVA, Stage

KIM = UserId("kim")
ORION = Subject(Kind.MENTION, UserId("orion"))
QUIET = AccountPreferencesPatch(quiet=QuietHours(start=time(21), end=time(5)), zone="Asia/Tokyo")
"""Quiet hours start at noon UTC, 21:00 in Tokyo, and end at 20:00 UTC."""
NIGHT = timedelta(hours=8)


def member(stage: Stage, name: str = KIM) -> Member:
    return Member(stage.population.people[name].member)


def alert_sizes(stage: Stage, name: str = KIM, *, on: Platform = Platform.FCM) -> list[int]:
    """Return how many bursts of nova each of the user's alerts by that provider was about, in order."""
    counts = []
    for sent, device in stage.state.phones.arrived:
        if (device.member, device.platform, sent.subject) == (member(stage, name), on, NOVA):
            match sent.content:
                case MentionAlert():
                    counts.append(1)
                case SummaryAlert(count=count):
                    counts.append(count)
    return counts


def set_quiet_hours(stage: Stage, *names: str) -> None:
    for name in names or (KIM,):
        stage.state.people.patch_account(UserId(name), QUIET)


def mention(stage: Stage, *names: str, of: str = "", author: str = "ada") -> None:
    """Open a new burst and alert everyone outside quiet hours."""
    stage.mention(*(names or ("nova",)), of=of or f"t{len(stage.bursts())}", author=author)
    stage.deliver_others()
    stage.pass_time(seconds=61)


def end_quiet_hours(stage: Stage) -> None:
    stage.state.clock.advance(NIGHT)
    stage.dispatch()


def work(stage: Stage, burst: BurstKey, *pools: Pool) -> None:
    """Work the slices of this burst alone; the others stay in their queues."""
    run_slice = build_slice_worker(stage.system())
    for pool in pools or map(Pool, PUSH_STEPS):
        waiting = stage.state.queue.waiting[pool]
        for slice_ in [slice_ for slice_ in waiting if slice_.burst == burst]:
            waiting.remove(slice_)
            run_slice(slice_)


def send_batches(stage: Stage, burst: BurstKey) -> list[SendBatch]:
    """Return the send batches with Kim, of all providers."""
    logs = [log for sending, log in stage.state.send_log.batches.items() if sending.burst == burst]
    return [batch for log in logs for batch in log.values() if contains(batch.members, member(stage))]


def use_providers(stage: Stage, *platforms: Platform) -> None:
    """Send alerts by these providers from now on."""
    providers = dict.fromkeys(platforms, stage.state.phones)
    stage.ports = replace(stage.ports, providers=providers, platforms=list(platforms))
    stage._dispatcher = None


def with_apple(stage: Stage) -> Device:
    """Give Kim an Apple device beside the one that she has."""
    address = AppleToken(token="ab" * 32, topic="app")
    device = Device(member=member(stage), address=address, registered_at=stage.state.clock.now())
    stage.state.devices.write([device])
    return device
