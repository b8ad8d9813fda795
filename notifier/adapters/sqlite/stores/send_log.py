"""What was sent to phones, in core.db: each window before it is sent, and what was missed of it after."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from notifier.adapters.sqlite.connection import Database
from notifier.codec.push import pack_intent, pack_outcome, unpack_window
from notifier.codec.timestamps import to_ms
from notifier.domain.audience.snapshot import KEPT_FOR
from notifier.domain.audience.tiers import Tier
from notifier.domain.ids import BurstKey, Platform
from notifier.domain.push.send_log import Sending, Window
from notifier.ports.clock import Clock

KEPT = KEPT_FOR + timedelta(days=1)
"""As long as anything of the burst can be delivered, and a day."""
SWEPT = 2
"""Windows whose time is over that go for each that is written: more than become so."""

_KEY = "subject = ? AND seq = ? AND shard = ? AND platform = ? AND tier = ? AND n = ?"
_INTEND = """
    INSERT OR IGNORE INTO sendings (subject, seq, shard, platform, tier, n, at, intent) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_CLOSE = f"UPDATE sendings SET outcome = ? WHERE {_KEY}"
_READ = """
    SELECT shard, tier, n, intent, outcome FROM sendings
    WHERE subject = ? AND seq = ? AND shard IN (SELECT value FROM json_each(?)) AND platform = ?
    ORDER BY shard, tier, n
"""
_SWEEP = """
    DELETE FROM sendings WHERE (subject, seq, shard, platform, tier, n) IN (
        SELECT subject, seq, shard, platform, tier, n FROM sendings WHERE at <= ? LIMIT ?
    )
"""

Key = tuple[str, int, int, str, str, int]


class SqliteSent:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def read(self, burst: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[Sending, Sequence[Window]]:
        wanted = str(burst.subject), burst.seq, json.dumps(list(shards)), str(platform)
        with self._db.read() as c:
            rows = c.execute(_READ, wanted).fetchall()
        found = defaultdict[Sending, list[Window]](list)
        for shard, tier, n, intent, outcome in rows:
            found[Sending(burst, Tier(tier), shard, platform)].append(unpack_window(n, intent, outcome))
        return dict(found)

    def intend(self, windows: Sequence[tuple[Sending, Window]]) -> Sequence[bool]:
        rows = [(*_key(sending, window), to_ms(window.at), pack_intent(window)) for sending, window in windows]
        over = to_ms(self._clock.now() - KEPT)
        with self._db.write() as c:
            written = [c.execute(_INTEND, row).rowcount == 1 for row in rows]
            c.execute(_SWEEP, (over, SWEPT * len(rows)))
        return written

    def close(self, windows: Sequence[tuple[Sending, Window]]) -> None:
        rows = [(pack_outcome(window), *_key(sending, window)) for sending, window in windows]
        with self._db.write() as c:
            c.executemany(_CLOSE, rows)


def _key(sending: Sending, window: Window) -> Key:
    burst = sending.burst
    return str(burst.subject), burst.seq, sending.shard, str(sending.platform), str(sending.tier), window.n
