"""What the phones of the demo's people rang for: by their devices, and by the lines that the fake providers write."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import SEEK_END
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from notifier.domain.ids import Platform, UserId
from notifier.domain.push.device import (
    Address,
    AppleToken,
    Device,
    FirebaseInstallation,
    FirebaseToken,
    WebSubscription,
)
from notifier.domain.push.translations import language_of
from notifier.ports.directory import Directory
from notifier.ports.push import Devices

ALERTS = "alerts.ndjson"
AT_ONCE = 4 << 20
"""Bytes of lines that one look reads: some twenty storms'. What lies before them isn't looked for."""


class FakeAlertBody(msgspec.Struct):
    """Of the fakes: an alert that arrived. It says more, and whatever isn't one is passed over."""

    at: datetime
    to: str
    place: str
    text: str


class Alerted(msgspec.Struct, kw_only=True):
    at: datetime
    place: str
    """What comes later with the same takes its place."""
    text: str
    language: str


class DemoPhoneBody(msgspec.Struct, kw_only=True):
    kind: str
    user: UserId
    platforms: list[Platform]
    """None: the person has no device."""
    alerts: list[Alerted]
    """Since the last look, oldest first."""


class DemoPhonesBody(msgspec.Struct, kw_only=True):
    phones: list[DemoPhoneBody]
    after: int
    """For the next look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPhones:
    directory: Directory
    devices: Devices
    file: Path

    def __call__(self, kinds: Sequence[str], users: Sequence[UserId], after: int) -> DemoPhonesBody:
        """What arrived behind a place in the file, which an earlier look said. Raises StoreUnavailable."""
        devices = self._devices(users)
        lines, end = tail(self.file, after)
        alerts = list(_alerts(lines, {to(one.address): one for some in devices.values() for one in some}))
        phones = [
            DemoPhoneBody(
                kind=kind,
                user=user,
                platforms=sorted({one.platform for one in devices[user]}),
                alerts=[alerted for device, alerted in alerts if device in devices[user]],
            )
            for kind, user in zip(kinds, users, strict=True)
        ]
        return DemoPhonesBody(phones=phones, after=end)

    def _devices(self, users: Sequence[UserId]) -> Mapping[UserId, Sequence[Device]]:
        """Of those who aren't loaded yet, none."""
        members = {user: account.member for user, account in self.directory.accounts(users).items()}
        found = self.devices.of(set(members.values()))
        return {user: found.get(members[user], ()) if user in members else () for user in users}


def to(address: Address) -> str:
    """As a fake provider names it."""
    match address:
        case AppleToken(token=token) | FirebaseToken(token=token):
            return token
        case FirebaseInstallation(fid=fid):
            return fid
        case WebSubscription(endpoint=endpoint):
            return urlsplit(endpoint).path


def tail(file: Path, after: int) -> tuple[Sequence[bytes], int]:
    """Whole lines behind the place, and where the next one begins; all of a file that has become shorter than that, and
    of what is too much the end."""
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, SEEK_END)
            start = max(after if after <= size else 0, size - AT_ONCE)
            opened.seek(start)
            found = opened.read(size - start)
    except FileNotFoundError:
        return [], 0
    whole = found[: found.rfind(b"\n") + 1]
    return whole.splitlines(), start + len(whole)


def _alerts(lines: Sequence[bytes], devices: Mapping[str, Device]) -> Iterator[tuple[Device, Alerted]]:
    decode = msgspec.json.Decoder(FakeAlertBody).decode
    for written in lines:
        try:
            line = decode(written)
        except msgspec.DecodeError:  # cut by whoever was killed, or by where this look begins
            continue
        if device := devices.get(line.to):
            yield device, Alerted(at=line.at, place=line.place, text=line.text, language=language_of(device.locale))
