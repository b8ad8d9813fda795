"""Alerts of the demo users' devices, read from the fake providers' log."""

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
from notifier.ports.push import Devices
from notifier.ports.user_directory_and_account_flags import Directory

ALERTS_FILE = "alerts.ndjson"
MAX_READ_BYTES = 4 << 20
"""Maximum bytes read per request, the last ones of the file: the alerts of about twenty storms."""


class LoggedAlert(msgspec.Struct):
    """A line of a fake provider's log: an alert that the provider received."""

    at: datetime
    to: str
    """Address of the device, as `logged_address` returns it."""
    place: str
    """Collapse key: the alert replaces an earlier one with the same `place`."""
    text: str


class PhoneAlertBody(msgspec.Struct, kw_only=True):
    """An alert on a device. It replaces an earlier alert with the same `place` (collapse key)."""

    at: datetime
    place: str
    text: str
    language: str


class DemoPhoneBody(msgspec.Struct, kw_only=True):
    """Platforms of a demo user's devices, and the user's new alerts, oldest first."""

    kind: str
    """`vip`, `active`, `occasional` or `away`."""
    user: UserId
    platforms: list[Platform]
    alerts: list[PhoneAlertBody]


class DemoPhonesBody(msgspec.Struct, kw_only=True):
    """New alerts of all demo users. `after` is the parameter of the next request."""

    phones: list[DemoPhoneBody]
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPhoneReader:
    directory: Directory
    devices: Devices
    alerts_file: Path

    def __call__(self, user_kinds: Sequence[str], users: Sequence[UserId], after: int) -> DemoPhonesBody:
        """Return the alerts after the offset `after` that an earlier call returned. Raises StoreUnavailable."""
        devices = self._devices(users)
        lines, end = lines_after(self.alerts_file, after)
        alerts = list(
            _alerts(lines, {logged_address(device.address): device for owned in devices.values() for device in owned})
        )
        phones = [
            DemoPhoneBody(
                kind=kind,
                user=user,
                platforms=sorted({device.platform for device in devices[user]}),
                alerts=[alert for receiver, alert in alerts if receiver in devices[user]],
            )
            for kind, user in zip(user_kinds, users, strict=True)
        ]
        return DemoPhonesBody(phones=phones, after=end)

    def _devices(self, users: Sequence[UserId]) -> Mapping[UserId, Sequence[Device]]:
        """Return the devices of each user; none for users that are not loaded yet."""
        members = {user: account.member for user, account in self.directory.accounts(users).items()}
        by_member = self.devices.by_member(set(members.values()))
        return {user: by_member.get(members[user], ()) if user in members else () for user in users}


def logged_address(address: Address) -> str:
    """Return the device's address as a fake provider logs it."""
    match address:
        case AppleToken(token=token) | FirebaseToken(token=token):
            return token
        case FirebaseInstallation(fid=fid):
            return fid
        case WebSubscription(endpoint=endpoint):
            return urlsplit(endpoint).path


def lines_after(file: Path, offset: int) -> tuple[Sequence[bytes], int]:
    """Return the complete lines after the offset, and the offset of the next line.

    Reads from the start if the file has become shorter than the offset. Reads at most the last MAX_READ_BYTES bytes.
    """
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, SEEK_END)
            start = max(offset if offset <= size else 0, size - MAX_READ_BYTES)
            stream.seek(start)
            content = stream.read(size - start)
    except FileNotFoundError:
        return [], 0
    complete = content[: content.rfind(b"\n") + 1]
    return complete.splitlines(), start + len(complete)


def _alerts(lines: Sequence[bytes], devices: Mapping[str, Device]) -> Iterator[tuple[Device, PhoneAlertBody]]:
    decode = msgspec.json.Decoder(LoggedAlert).decode
    for line in lines:
        try:
            alert = decode(line)
        except msgspec.DecodeError:
            continue  # cut off: the provider was killed while writing it, or the read started inside it
        if device := devices.get(alert.to):
            yield (
                device,
                PhoneAlertBody(at=alert.at, place=alert.place, text=alert.text, language=language_of(device.locale)),
            )
