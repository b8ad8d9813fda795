"""One thing that was looked at, as the doctor tells it."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    name: str
    level: Level = "ok"
    detail: str
    remedy: str = ""
    value: float | int | str | None = None
    limit: float | int | str | None = None
