"""Device scenarios: devices are registered, change owners and are dropped."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from notifier.domain.ids import UserId
from notifier.domain.push.device import Device, DeviceRecord, FirebaseToken, device_id
from notifier.domain.push.receipt import ConfigError, DropDevice, PayloadError, Receipt, RetryAt, Unknown
from notifier.flow.devices.device_registry import DeviceRegistry
from notifier.ports.user_directory_and_account_flags import Directory
from tests.support.oracle import DeviceUpdate
from tests.support.simulator.durable_state import DurableState
from tests.support.simulator.script import Changed, Opened, Script, ScriptEntry, Tweeted, Wiped

OWNERS = ("kim", "lee", "max", "pat", "roy", "nova")
"""Owners of devices; none is ever erased. max is in another shard than kim, and so is nova."""
AUTHORS = ("ada", "bob", "eve")
DEVICES = 3
"""Number of devices that change owners."""
SOON = timedelta(seconds=10)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ANSWERS: Mapping[str, Callable[[datetime], Receipt]] = {
    "busy": lambda now: RetryAt(at=now + SOON, reason="busy"),
    "unknown": lambda _: Unknown(reason="no answer"),
    "gone": lambda now: DropDevice(at=now, reason="gone"),
    "outdated": lambda _: DropDevice(at=LONG_AGO, reason="was gone before it was registered"),
    "refused": lambda _: PayloadError(reason="refused"),
    "unconfigured": lambda _: ConfigError(reason="a key of ours has expired"),
}
"""A provider's next answer for a device."""


def apply_device_change(registry: DeviceRegistry, state: DurableState, changed: Changed) -> None:
    """Apply a device change as an app or a provider does.

    Raises Unavailable or DiskFull; the change may have been accepted even then.
    """
    user = UserId(changed.person)
    member, address = state.directory.accounts([user])[user].member, _address(changed)
    match changed.what.split(":")[1]:
        case "on":
            registry.register(member, address, locale="en", time_zone="UTC")
        case "off":
            registry.unregister(member, device_id(address))
        case answer if answer in ANSWERS:
            state.phones.answers[device_id(address)].append(ANSWERS[answer](state.clock.now()))
        case _:
            for device in registry.list_devices(member):
                if device.address == address:
                    registry.remove_rejected({device: None})


def _address(changed: Changed) -> FirebaseToken:
    return FirebaseToken(token=f"{int(changed.what.rpartition(':')[2]):040}")


def device_updates(record: DeviceRecord, directory: Directory) -> Sequence[DeviceUpdate]:
    """Translate a log record into updates for the oracle."""
    if (change := record.update) is None:
        return []
    person = directory.users([change.member])[change.member]
    return [DeviceUpdate(person=person, device=change.id, rank=change.rank, is_registered=isinstance(change, Device))]


def device_changes() -> Script:
    """Three devices change among six users, sometimes two at a time, and are dropped, while snapshots are taken."""
    kinds = ("on", "on", "off", "on", "drop", "on")
    changes = [
        Changed(person=OWNERS[(5 * n + n // 6) % 6], what=f"phone:{kinds[n % 6]}:{(n + n // 5) % DEVICES}")
        for n in range(40)
    ]
    entries = [ScriptEntry(step=1 + 16 * n, what=change) for n, change in enumerate(changes)]
    entries += [
        ScriptEntry(
            step=15 + 80 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra", "orion"))
        )
        for n in range(8)
    ]
    entries.append(ScriptEntry(step=650, what=Opened(person="kim")))
    return Script(seed=1, steps=680, entries=entries, collapse=timedelta(0), pumps=2, devices=True)


def device_retries() -> Script:
    """Users have two devices and one must be retried later; Redis is wiped in between."""
    changes = [("kim", "on:0"), ("kim", "on:1"), ("lee", "on:2"), ("lee", "on:3"), ("kim", "busy:1"), ("lee", "busy:2")]
    entries = [
        ScriptEntry(step=1 + 16 * n, what=Changed(person=person, what=f"phone:{action}"))
        for n, (person, action) in enumerate(changes)
    ]
    entries.append(ScriptEntry(step=150, what=Tweeted(id="e1", author="ada", mentioned=("nova",))))
    entries.append(ScriptEntry(step=1_200, what=Wiped()))
    return Script(seed=1, steps=1_300, entries=entries, devices=True)
