"""The envelope of every `--json` that checks: stable, because other people's checks rely on it."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass

SCHEMA = "notifier.check/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    ok: bool
    value: float | int | str | None = None
    limit: float | int | str | None = None
    unit: str = ""
    n: int = 1
    """How many observations stand behind the value."""
    detail: str = ""


def envelope(profile: str, seed: int | None, checks: Sequence[Check]) -> dict[str, object]:
    """To be printed last and on one line; ok when every check is, and there is one."""
    return {
        "schema": SCHEMA,
        "profile": profile,
        "seed": seed,
        "machine": machine(),
        "checks": [asdict(check) for check in checks],
        "ok": bool(checks) and all(check.ok for check in checks),
    }


def machine() -> dict[str, object]:
    return {"system": platform.platform(), "cpus": os.cpu_count(), "python": platform.python_version()}
