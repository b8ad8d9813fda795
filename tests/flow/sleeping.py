"""Kim sleeps while nova is mentioned, and gets up: what her phones rang for, and slices worked on burst by burst."""

from dataclasses import replace
from datetime import time, timedelta

from notifier.domain.audience.bitmap import holds
from notifier.domain.delivery.slice import PHONES, Pool
from notifier.domain.ids import BurstKey, Kind, Member, Platform, Subject, UserId
from notifier.domain.push.alert import MentionAlert, WhileAway
from notifier.domain.push.device import AppleToken, Device
from notifier.domain.push.send_log import Window
from notifier.domain.users.account_preferences import OverallWish
from notifier.domain.users.quiet_hours import Hours
from notifier.wiring.delivery import build_slice_worker
from tests.support.in_memory_system import NOVA, Stage

KIM = UserId("kim")
ORION = Subject(Kind.MENTION, UserId("orion"))
ASLEEP = OverallWish(quiet=Hours(start=time(21), end=time(5)), zone="Asia/Tokyo")
"""Where it is nine in the evening when it is noon by UTC, and five in the morning at 20:00."""
NIGHT = timedelta(hours=8)


def member(stage: Stage, name: str = KIM) -> Member:
    return Member(stage.scene.people[name].member)


def heard(stage: Stage, name: str = KIM, *, on: Platform = Platform.FCM) -> list[int]:
    """For how many bursts of nova each of the person's alerts by that provider stood, one after the other."""
    found = []
    for sent, device in stage.ground.phones.arrived:
        if (device.member, device.platform, sent.subject) == (member(stage, name), on, NOVA):
            match sent.news:
                case MentionAlert():
                    found.append(1)
                case WhileAway(count=count):
                    found.append(count)
    return found


def asleep(stage: Stage, *names: str) -> None:
    for name in names or (KIM,):
        stage.ground.people.arrange(UserId(name), ASLEEP)


def mention(stage: Stage, *names: str, of: str = "", author: str = "ada") -> None:
    """A burst of its own, whose phones rang, but of those who sleep."""
    stage.mention(*(names or ("nova",)), of=of or f"t{len(stage.bursts())}", author=author)
    stage.deliver_others()
    stage.pass_time(seconds=61)


def gets_up(stage: Stage) -> None:
    stage.ground.clock.advance(NIGHT)
    stage.dispatch()


def work(stage: Stage, burst: BurstKey, *pools: Pool) -> None:
    """The slices of this burst alone; the others stay in their queues."""
    done = build_slice_worker(stage.system())
    for pool in pools or map(Pool, PHONES):
        waiting = stage.ground.queue.waiting[pool]
        for piece in [piece for piece in waiting if piece.burst == burst]:
            waiting.remove(piece)
            done(piece)


def windows(stage: Stage, burst: BurstKey) -> list[Window]:
    """Of kim, on any provider."""
    of = [some for sending, some in stage.ground.sent.windows.items() if sending.burst == burst]
    return [one for some in of for one in some.values() if holds(one.people, member(stage))]


def by(stage: Stage, *platforms: Platform) -> None:
    """From now on alerts go to these."""
    providers = dict.fromkeys(platforms, stage.ground.phones)
    stage.ports = replace(stage.ports, providers=providers, platforms=list(platforms))
    stage._dispatcher = None


def with_apple(stage: Stage) -> Device:
    """Kim's, beside the one that she has."""
    address = AppleToken(token="ab" * 32, topic="app")
    device = Device(member=member(stage), address=address, registered_at=stage.ground.clock.now())
    stage.ground.devices.write([device])
    return device
