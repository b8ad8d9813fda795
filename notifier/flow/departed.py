"""The departed: whose account was deleted, or erased since, keeps no device, also where it was registered meanwhile."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from notifier.domain.bursts.retraction import erased_trail
from notifier.domain.push.device import Device, Gone, gone
from notifier.ports.directory import Directory
from notifier.ports.retractions import Retractions


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    directory: Directory
    retractions: Retractions

    def __call__(self, devices: Collection[Device]) -> Sequence[Gone]:
        """What takes away those that nobody is left to be told through. Asked behind their rows: who deletes an account
        looks for rows behind its flag, and who erases one behind its word, so that one of the two sees the other."""
        users = self.directory.users({device.member for device in devices})
        accounts = self.directory.accounts(users.values())
        words = self.retractions.standing({erased_trail(user) for user in users.values()})
        deleted = {account.member for account in accounts.values() if account.deleted}
        erased = {accounts[word.author].member: word.at for word in words.values() if word.author in accounts}
        return [
            gone(device)
            for device in devices
            if device.member in deleted or (device.member in erased and device.registered_at <= erased[device.member])
        ]
