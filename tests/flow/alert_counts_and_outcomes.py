"""Counts alerts per device and reads outcomes of failed alerts."""

from collections import Counter
from datetime import timedelta

from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Device
from notifier.domain.push.send_log import AlertOutcome
from tests.support.in_memory_system import NOVA, Stage

SOON = timedelta(seconds=12)


def phone(stage: Stage, name: str) -> Device:
    member = Member(stage.population.people[name].member)
    [device] = stage.state.devices.by_member([member])[member]
    return device


def alert_counts(stage: Stage) -> Counter[str]:
    """Count the alerts for nova by device."""
    arrived = stage.state.phones.arrived
    return Counter(str(device.address) for sent, device in arrived if sent.burst.subject == NOVA)


def alert_count(stage: Stage, name: str) -> int:
    return alert_counts(stage)[str(phone(stage, name).address)]


def alert_outcomes(stage: Stage, name: str) -> list[AlertOutcome]:
    member = Member(stage.population.people[name].member)
    logs = stage.state.send_log.read(stage.bursts()[0], Platform.FCM, [0, 1]).values()
    failures = [failure for batches in logs for batch in batches for failure in batch.failures or ()]
    return [failure.outcome for failure in failures if failure.state.member == member]
