"""Leadership in memory."""

from datetime import datetime, timedelta


class MemoryLeases:
    def __init__(self) -> None:
        self._leases: dict[str, tuple[str, datetime]] = {}

    def hold(self, name: str, owner: str, now: datetime, term: timedelta) -> bool:
        holder, until = self._leases.get(name, (owner, now))
        if holder != owner and until > now:
            return False
        self._leases[name] = owner, now + term
        return True
