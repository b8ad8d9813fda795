"""How often phones rang, and what is noted of who was missed."""

from collections import Counter
from datetime import timedelta

from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Device
from notifier.domain.push.send_log import AlertOutcome
from tests.support.in_memory_system import NOVA, Stage

SOON = timedelta(seconds=12)


def phone(stage: Stage, name: str) -> Device:
    member = Member(stage.scene.people[name].member)
    [device] = stage.ground.devices.of([member])[member]
    return device


def rings(stage: Stage) -> Counter[str]:
    """How often each phone rang for nova."""
    arrived = stage.ground.phones.arrived
    return Counter(str(device.address) for sent, device in arrived if sent.burst.subject == NOVA)


def rang(stage: Stage, name: str) -> int:
    return rings(stage)[str(phone(stage, name).address)]


def fates(stage: Stage, name: str) -> list[AlertOutcome]:
    member = Member(stage.scene.people[name].member)
    found = stage.ground.sent.read(stage.bursts()[0], Platform.FCM, [0, 1]).values()
    every = [one for windows in found for window in windows for one in window.missed or ()]
    return [one.fate for one in every if one.tried.member == member]
