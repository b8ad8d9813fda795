"""The product's counters, read from /metrics as an operator reads them."""

import re
from collections.abc import Mapping
from urllib.request import urlopen

STORE, REDIS, LOADS = (
    "notifier_inbox_store_calls_total",
    "notifier_inbox_redis_calls_total",
    "notifier_inbox_burst_loads_total",
)
"""Round trips of the read path to the store and to Redis, and bursts that it loaded."""
SAMPLE = re.compile(r"^(notifier_inbox_\w+_total)(?:\{[^}]*\})? (\S+)", re.MULTILINE)
WITHIN = 30.0


def read_counters(url: str) -> Mapping[str, float]:
    """Return the read path's counters by name; those with labels are summed."""
    with urlopen(f"{url}/metrics", timeout=WITHIN) as answer:
        return parsed(answer.read().decode())


def parsed(text: str) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for name, value in SAMPLE.findall(text):
        found[name] = found.get(name, 0.0) + float(value)
    return found
