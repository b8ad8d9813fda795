"""Time and chance as the machine has them."""

from datetime import UTC, datetime
from uuid import uuid4


class SystemClock:
    def now(self) -> datetime:
        moment = datetime.now(UTC)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


class UuidNonces:
    def new(self) -> str:
        return uuid4().hex
