"""`drop_token_respects_registration`: devices registered after a provider's time of removal are kept."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count, islice

import numpy as np

from benchmarks.fanout.measured_notifier import FanoutStage
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.check.http_client import HttpClient
from notifier.devkit.fake_providers.behavior import ProviderScript
from notifier.devkit.fake_providers.fake_devices import (
    APNS_TOPIC,
    ENDPOINT_PATH_PREFIX,
    fixture_apns_token,
    fixture_fcm_token,
)
from notifier.devkit.fixture.sample_users_and_devices import platform
from notifier.devkit.fixture.world import ACTIVE_24H, user
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import AppleToken, Device, DeviceId

NAME = "drop_token_respects_registration"
PEOPLE = 40
"""Users who have two additional iPhones each. Apple reports that these were removed a day ago."""
REGISTRATION_AGE = timedelta(days=2)
FIRST_FOREIGN_TOKEN = 1 << 255
"""Tokens from this number on belong to no device of the fixture."""


class _GoneDevices(ProviderScript):
    """Whether a member's device is removed, by the script of the fakes."""

    def __call__(self, m: int) -> bool:
        names = {
            Platform.APNS: fixture_apns_token(m),
            Platform.FCM: fixture_fcm_token(m),
            Platform.WEB: f"{ENDPOINT_PATH_PREFIX}{m}",
        }
        return self.is_gone(names[platform(m)])


is_gone = _GoneDevices(gone_share=0.1)


@dataclass(slots=True, kw_only=True)
class DroppedDevices:
    stage: FanoutStage
    old: list[Device] = field(default_factory=list)
    """Registered before the removal, and not again."""
    again: list[Device] = field(default_factory=list)
    """Registered before the removal, and again after it."""

    def register(self) -> None:
        numbers = (n for n in count(FIRST_FOREIGN_TOKEN) if is_gone.is_gone(f"{n:064x}"))
        since = self.stage.ports.clock.now() - REGISTRATION_AGE
        for m in islice(self._active(), PEOPLE):
            for kind in (self.old, self.again):
                address = AppleToken(token=f"{next(numbers):064x}", topic=APNS_TOPIC)
                kind.append(Device(member=Member(m), address=address, registered_at=since))
        self.stage.ports.devices.write([*self.old, *self.again])
        for device in self.again:
            self._register_again(device)

    def _active(self) -> Iterator[int]:
        world = self.stage.world
        m = world.members_with_device()
        is_alerted = world.follows(0, m) & ~world.mutes(0, m) & (world.idleness(m) < ACTIVE_24H)
        yield from m[np.flatnonzero(is_alerted)].tolist()

    def _register_again(self, device: Device) -> None:
        """Register as the app does at each start."""
        assert isinstance(device.address, AppleToken)
        wire = HttpClient(url=self.stage.instance.url, bearer=self.stage.token(user(device.member)))
        registration = {"platform": "apns", "token": device.address.token, "topic": device.address.topic}
        answer = wire.put("/v1/devices", registration)
        wire.close()
        assert answer.status == 200, answer

    def finding(self, alerted: Collection[Member]) -> Finding:
        """Compare the devices, after an alert went to all devices of the members."""
        wrong = [
            f"device {device.id} of u{device.member} was removed yesterday, but is kept"
            for device in self._still_registered(self.old)
        ]
        wrong += [
            f"device {device.id} of u{device.member} was registered again, but was dropped"
            for device in self._lost(self.again)
        ]
        for m in filter(is_gone, alerted):
            # Google and browsers report no time. Apple reports a time before the fixture was loaded.
            is_kept, must_be_kept = bool(self._fixture_devices(m)), platform(m) is Platform.APNS
            if is_kept != must_be_kept:
                wrong.append(f"device of u{m} at {platform(m)} was {'kept' if is_kept else 'dropped'}")
        return no_errors(NAME, wrong, n=len(self.old) + len(self.again) + sum(map(is_gone, alerted)))

    def _still_registered(self, devices: Sequence[Device]) -> list[Device]:
        ids = self._ids({device.member for device in devices})
        return [device for device in devices if device.id in ids]

    def _lost(self, devices: Sequence[Device]) -> list[Device]:
        ids = self._ids({device.member for device in devices})
        return [device for device in devices if device.id not in ids]

    def _fixture_devices(self, m: Member) -> Sequence[Device]:
        extra = {device.id for device in (*self.old, *self.again)}
        return [device for device in self.stage.ports.devices.by_member([m]).get(m, ()) if device.id not in extra]

    def _ids(self, members: Collection[Member]) -> set[DeviceId]:
        return {
            device.id
            for member_devices in self.stage.ports.devices.by_member(members).values()
            for device in member_devices
        }
