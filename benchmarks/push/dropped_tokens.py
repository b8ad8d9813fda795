"""`drop_token_respects_registration`: providers say since when a device is gone; who registered after that stays."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count, islice

import numpy as np

from benchmarks.fanout.stage import Stage
from notifier.devkit.check.finding import Finding, agreement
from notifier.devkit.check.http_client import HttpClient
from notifier.devkit.fake_providers.behaviour import ProviderScript
from notifier.devkit.fake_providers.devices import PATH, TOPIC, fixture_apns_token, fixture_fcm_token
from notifier.devkit.fixture.users import platform
from notifier.devkit.fixture.world import ACTIVE_24H, user
from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import AppleToken, Device, DeviceId

NAME = "drop_token_respects_registration"
PEOPLE = 40
"""With two more iPhones each, of which Apple says that they were gone a day ago."""
LONG_AGO = timedelta(days=2)
STRANGE = 1 << 255
"""From here on tokens are nobody's of the fixture."""


class _Gone(ProviderScript):
    """Whose device is no longer there, by the script of the fakes."""

    def __call__(self, m: int) -> bool:
        names = {
            Platform.APNS: fixture_apns_token(m),
            Platform.FCM: fixture_fcm_token(m),
            Platform.WEB: f"{PATH}{m}",
        }
        return self.is_gone(names[platform(m)])


gone = _Gone(gone=0.1)


@dataclass(slots=True, kw_only=True)
class Dropping:
    stage: Stage
    old: list[Device] = field(default_factory=list)
    """Registered before they were gone, and not again."""
    again: list[Device] = field(default_factory=list)
    """Registered before that, and again when it was over."""

    def register(self) -> None:
        numbers = (n for n in count(STRANGE) if gone.is_gone(f"{n:064x}"))
        since = self.stage.ports.clock.now() - LONG_AGO
        for m in islice(self._active(), PEOPLE):
            for kind in (self.old, self.again):
                address = AppleToken(token=f"{next(numbers):064x}", topic=TOPIC)
                kind.append(Device(member=Member(m), address=address, registered_at=since))
        self.stage.ports.devices.write([*self.old, *self.again])
        for device in self.again:
            self._register_again(device)

    def _active(self) -> Iterator[int]:
        world = self.stage.world
        m = world.reachable()
        told = world.follows(0, m) & ~world.mutes(0, m) & (world.idleness(m) < ACTIVE_24H)
        yield from m[np.flatnonzero(told)].tolist()

    def _register_again(self, device: Device) -> None:
        """As its app does whenever it starts."""
        assert isinstance(device.address, AppleToken)
        wire = HttpClient(url=self.stage.instance.url, bearer=self.stage.token(user(device.member)))
        said = {"platform": "apns", "token": device.address.token, "topic": device.address.topic}
        answer = wire.put("/v1/devices", said)
        wire.close()
        assert answer.status == 200, answer

    def finding(self, told: Collection[Member]) -> Finding:
        """Once an alert went to all devices of those who were told."""
        wrong = [f"{one.id} of u{one.member} is gone since yesterday, and stands" for one in self._standing(self.old)]
        wrong += [f"{one.id} of u{one.member} was registered again, and dropped" for one in self._lost(self.again)]
        for m in filter(gone, told):
            # Google and browsers say no time; what Apple says is of before the fixture was loaded.
            stands, stays = bool(self._fixture_s(m)), platform(m) is Platform.APNS
            if stands != stays:
                wrong.append(f"u{m} by {platform(m)} was {'kept' if stands else 'dropped'}")
        return agreement(NAME, wrong, n=len(self.old) + len(self.again) + sum(map(gone, told)))

    def _standing(self, devices: Sequence[Device]) -> list[Device]:
        ids = self._ids({device.member for device in devices})
        return [device for device in devices if device.id in ids]

    def _lost(self, devices: Sequence[Device]) -> list[Device]:
        ids = self._ids({device.member for device in devices})
        return [device for device in devices if device.id not in ids]

    def _fixture_s(self, m: Member) -> Sequence[Device]:
        extra = {device.id for device in (*self.old, *self.again)}
        return [device for device in self.stage.ports.devices.of([m]).get(m, ()) if device.id not in extra]

    def _ids(self, members: Collection[Member]) -> set[DeviceId]:
        return {device.id for some in self.stage.ports.devices.of(members).values() for device in some}
