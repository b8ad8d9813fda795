"""Suspects: devices whose address may be wrong, and who therefore travel apart."""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.receipt import Accepted, DropToken, Receipt

YOUNG = timedelta(hours=1)
"""What is wrong from the beginning (the other environment's, another app's, a hostile one's) is found out by the first
alert, which for whoever is around comes within this. Apps register at each start, so longer would be everybody."""
REMEMBERED = 65_536
"""Devices: some 10 MB. Whoever is forgotten travels apart once more, or once not."""


@dataclass(slots=True)
class Suspects:
    """One process's, of what it was told itself. Nothing is lost with it: a suspect gets its alert like others."""

    remembered: int = REMEMBERED
    _taken: "OrderedDict[DeviceId, bool]" = field(default_factory=OrderedDict)
    """Whether the last answer about it was that it is a device."""

    def doubts(self, device: Device, now: datetime) -> bool:
        taken = self._last(device)
        return now - device.registered_at < YOUNG if taken is None else not taken

    def note(self, device: Device, receipt: Receipt, now: datetime) -> None:
        """Of those who were never in doubt nothing is kept."""
        match receipt:
            case Accepted() if now - device.registered_at < YOUNG or self._last(device) is not None:
                self._keep(device.id, True)
            case DropToken():
                self._keep(device.id, False)
            case _:
                pass

    def _last(self, device: Device) -> bool | None:
        return self._taken.get(device.id) if self._taken else None  # an id is a hash, which takes longer than a look

    def _keep(self, name: DeviceId, taken: bool) -> None:
        self._taken[name] = taken
        self._taken.move_to_end(name)
        if len(self._taken) > self.remembered:
            self._taken.popitem(last=False)
