"""Dialling: people register devices, log in on others', leave and lose them; and what the oracle hears of it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from notifier.domain.ids import UserId
from notifier.domain.push.device import Device, DeviceRecord, FirebaseToken, device_id
from notifier.domain.push.receipt import ConfigError, DropToken, PayloadError, Receipt, RetryAt, Unknown
from notifier.flow.devices.registry import PhoneBook
from notifier.ports.directory import Directory
from tests.support.oracle import Phoned
from tests.support.simulator.durable_state import Ground
from tests.support.simulator.script import Changed, Happening, Opened, Script, Tweeted, Wiped

OWNERS = ("kim", "lee", "max", "pat", "roy", "nova")
"""Nobody of them is ever erased. The first, and those around max, are of different shards."""
AUTHORS = ("ada", "bob", "eve")
DEVICES = 3
"""That go round among them."""
SOON = timedelta(seconds=10)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ANSWERS: Mapping[str, Callable[[datetime], Receipt]] = {
    "busy": lambda now: RetryAt(at=now + SOON, reason="busy"),
    "unknown": lambda _: Unknown(reason="no answer"),
    "gone": lambda now: DropToken(at=now, reason="gone"),
    "outdated": lambda _: DropToken(at=LONG_AGO, reason="was gone before it was registered"),
    "refused": lambda _: PayloadError(reason="refused"),
    "unconfigured": lambda _: ConfigError(reason="a key of ours has expired"),
}
"""What a provider says of a device when it is sent to next."""


def dialled(book: PhoneBook, ground: Ground, changed: Changed) -> None:
    """As an app or a provider says it. Raises Unavailable or Full, and then may or may not be heard."""
    user = UserId(changed.person)
    member, address = ground.directory.accounts([user])[user].member, _address(changed)
    match changed.what.split(":")[1]:
        case "on":
            book.register(member, address, locale="en", time_zone="UTC")
        case "off":
            book.unregister(member, device_id(address))
        case answer if answer in ANSWERS:
            ground.phones.says[device_id(address)].append(ANSWERS[answer](ground.clock.now()))
        case _:
            for device in book.of(member):
                if device.address == address:
                    book.drop({device: None})


def _address(changed: Changed) -> FirebaseToken:
    return FirebaseToken(token=f"{int(changed.what.rpartition(':')[2]):040}")


def rung(record: DeviceRecord, directory: Directory) -> Sequence[Phoned]:
    """What the log carries, in the oracle's words, to the one whom it is about."""
    if (word := record.word) is None:
        return []
    person = directory.users([word.member])[word.member]
    return [Phoned(person=person, device=word.id, rank=word.rank, has=isinstance(word, Device))]


def dialling() -> Script:
    """Three devices go round among six people while bursts are sealed, now and then two at a time, and are lost."""
    kinds = ("on", "on", "off", "on", "drop", "on")
    said = [
        Changed(person=OWNERS[(5 * n + n // 6) % 6], what=f"phone:{kinds[n % 6]}:{(n + n // 5) % DEVICES}")
        for n in range(40)
    ]
    happenings = [Happening(step=1 + 16 * n, what=one) for n, one in enumerate(said)]
    happenings += [
        Happening(
            step=15 + 80 * n, what=Tweeted(id=f"e{n}", author=AUTHORS[n % 3], mentioned=("nova", "lyra", "orion"))
        )
        for n in range(8)
    ]
    happenings.append(Happening(step=650, what=Opened(person="kim")))
    return Script(seed=1, steps=680, happenings=happenings, collapse=timedelta(0), pumps=2, devices=True)


def redialling() -> Script:
    """Some have two devices, of which one is to be asked again later; meanwhile Redis is emptied."""
    said = [("kim", "on:0"), ("kim", "on:1"), ("lee", "on:2"), ("lee", "on:3"), ("kim", "busy:1"), ("lee", "busy:2")]
    happenings = [
        Happening(step=1 + 16 * n, what=Changed(person=person, what=f"phone:{what}"))
        for n, (person, what) in enumerate(said)
    ]
    happenings.append(Happening(step=150, what=Tweeted(id="e1", author="ada", mentioned=("nova",))))
    happenings.append(Happening(step=1_200, what=Wiped()))
    return Script(seed=1, steps=1_300, happenings=happenings, devices=True)
