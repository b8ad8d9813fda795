"""The settings tree: all top-level settings and sections."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from notifier.config.cluster import (
    MAX_PORT,
    REDIS_URL_PATTERN,
    BrokerSettings,
    CassandraSettings,
    KafkaSettings,
    matches_pattern,
)
from notifier.config.limits import DeadLetterSettings, InboxLimits, ReachSettings, RequestLimits
from notifier.config.push import PushSettings
from notifier.config.setting_field import HiddenPart, setting, variable
from notifier.config.settings_and_environment import read_settings
from notifier.config.token_issuer import Issuer, is_loopback
from notifier.domain.audience.activity import P2_DAYS_CHOICES
from notifier.domain.errors import BadSetting

CELEBRITY_THRESHOLD = 1_000_000
"""Followers that make an account a celebrity, as required by the product specification."""
HYSTERESIS = 0.9
"""Share of the threshold below which a celebrity becomes a standard account again.

Without it, an account near the threshold would keep changing between celebrity and standard account.
"""

MAX_COLLAPSE = timedelta(days=1)
"""Users are alerted of a burst only once, so mentions of a later day need a new burst."""
MAX_REFILL = timedelta(days=1)
MONITOR_INTERVAL_BOUNDS = timedelta(seconds=0.1), timedelta(hours=1)
"""A shorter interval would be a busy loop. After a longer one backpressure would be out of date."""
ROLL_UP_INTERVAL_BOUNDS = timedelta(seconds=1), timedelta(hours=1)
"""A shorter interval would be a busy loop. After a longer one tiers would be out of date."""
MAX_API_WORKERS = 64
"""Each API process takes 40 MB and has its own connections to the engines."""
MAX_STREAMS = 50_000
ORIGIN_PATTERN = re.compile(r"(https?)://([a-z0-9_]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")
"""Origin exactly as a browser sends it, because origins are compared as strings."""
DEFAULT_PORTS = {"http": ":80", "https": ":443"}
"""Ports that browsers omit from an origin."""
MIN_SECRET_BYTES = 32
"""HS256 needs a key of at least 32 bytes, the length of its hash."""
LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
PROFILES = ("embedded", "cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data: Path = setting(
        Path("./notifier-data"),
        requirement="a folder",
        meaning="Data folder. It holds all durable data of the embedded profile, and run files, keys and logs "
        "of both profiles.",
    )
    profile: str = setting(
        PROFILES[0],
        requirement=" or ".join(PROFILES),
        meaning="Technologies behind the ports ([architecture](architecture.md)). If neither an option nor the "
        "environment sets it, the profile of the last `notifier up` on this data folder applies. It also takes "
        "precedence over the settings file.",
        is_valid=lambda name: name in PROFILES,
    )
    instance: str = setting(
        "",
        requirement="empty, or at most 90 letters, digits, dots, dashes and underscores",
        meaning="Name of this pump's readers in Kafka. Each pump needs its own, and keeps it after a restart "
        "([cluster](cluster.md#names-of-pumps)). If empty, it is made from the host name and the data folder.",
        is_valid=matches_pattern(r"[A-Za-z0-9._-]{0,90}"),
    )
    host: str = setting(
        "127.0.0.1",
        requirement="a host name or an address",
        meaning="Address on which the API listens.",
        is_valid=matches_pattern(r"\S+"),
    )
    port: int = setting(
        8080,
        requirement="a whole number from 0 to 65535",
        meaning="Port of the API. 0 takes any free port.",
        is_valid=lambda port: 0 <= port <= MAX_PORT,
    )
    api_workers: int | None = setting(
        None,
        requirement=f"a whole number from 1 to {MAX_API_WORKERS}",
        meaning="API processes that `notifier up` starts on this port; more than one needs Linux. If not set, "
        "it depends on the number of processors "
        "([operations](operations.md#more-than-one-api-process)).",
        is_valid=lambda count: count is None or 1 <= count <= MAX_API_WORKERS,
    )
    redis_url: str = setting(
        "",
        requirement="empty, or a redis://, rediss:// or unix:// URL, redis+sentinel://host,host/name or "
        "redis+cluster://host,host",
        meaning="Redis or Valkey to use. If empty, `up` of the embedded profile starts and supervises its own; the "
        "cluster profile requires a URL. The hosts of `redis+sentinel` are sentinels, which are asked in turn for "
        "the primary `name`. User and password of the URL apply to the sentinels and to the primary. The hosts of "
        "`redis+cluster` are nodes of a cluster. `rediss+sentinel` and `rediss+cluster` use TLS. Celery supports "
        "only `redis://` and `rediss://`; with any other URL each pool needs its own broker.",
        is_valid=matches_pattern(f"|{REDIS_URL_PATTERN}"),
        hidden=HiddenPart.PASSWORD,
    )
    threshold: int = setting(
        CELEBRITY_THRESHOLD,
        requirement="a whole number from 1 up",
        meaning="Followers from which an account is a celebrity. Below 90 % of that it becomes a standard account "
        "again.",
        is_valid=lambda followers: followers >= 1,
    )
    collapse: timedelta | None = setting(
        None,
        requirement="a number of seconds from 0 to 86400",
        meaning="Minimum collapse window of every subject. 0: one burst per mention, for accounts with at most "
        "100,000 followers (larger accounts keep 60 s, because each fan-out would reach all their "
        "followers again). If not set, it is 60 s.",
        is_valid=lambda window: window is None or timedelta(0) <= window <= MAX_COLLAPSE,
    )
    refill: timedelta | None = setting(
        None,
        requirement="a number of seconds from 1 to 86400",
        meaning="Seconds until a subject that has spent its 6 fan-outs in a row may have one more. If not set, "
        "it is 3600; `notifier demo` sets 60.",
        is_valid=lambda wait: wait is None or timedelta(seconds=1) <= wait <= MAX_REFILL,
    )
    secret: str = setting(
        "",
        requirement=f"empty, or at least {MIN_SECRET_BYTES} bytes long",
        meaning="Signs tokens and encrypts cursors. If empty, it is created once and kept in the data folder.",
        is_valid=lambda secret: not secret or len(secret.encode(errors="surrogateescape")) >= MIN_SECRET_BYTES,
        hidden=HiddenPart.ALL,
    )
    insecure_dev: bool = setting(
        False,
        requirement="true or false",
        meaning="Local requests need no key. A request without `Authorization` has every scope. A request with "
        "`Authorization: User ada` is made as the user ada. For development only, on a loopback address and without "
        "an issuer ([http](http.md#without-a-key)).",
    )
    service_keys: str = setting(
        "",
        requirement="a file",
        meaning="File in which `notifier key` keeps hashes of the service keys. If empty, `service_keys.json` in "
        "the data folder.",
    )
    monitor_every: timedelta = setting(
        timedelta(seconds=10),
        requirement="a number of seconds from 0.1 to 3600",
        meaning="Seconds between two measurements of the monitor, which sets the backpressure.",
        is_valid=lambda every: MONITOR_INTERVAL_BOUNDS[0] <= every <= MONITOR_INTERVAL_BOUNDS[1],
    )
    roll_up_every: timedelta = setting(
        timedelta(minutes=1),
        requirement="0, or a number of seconds from 1 to 3600",
        meaning="Seconds between two roll-ups, which count recent inbox opens as activity and so decide tiers. "
        "0: never, as in `notifier demo` and the benchmarks.",
        is_valid=lambda every: not every or ROLL_UP_INTERVAL_BOUNDS[0] <= every <= ROLL_UP_INTERVAL_BOUNDS[1],
    )
    p2_days: int = setting(
        P2_DAYS_CHOICES[-1],
        requirement=", ".join(map(str, P2_DAYS_CHOICES[:-1])) + f" or {P2_DAYS_CHOICES[-1]}",
        meaning="Days within which a follower of a celebrity must have been active to be in P2.",
        is_valid=lambda days: days in P2_DAYS_CHOICES,
    )
    tier_rule: str = setting(
        "",
        requirement="empty, or module:function",
        meaning="Function that decides tiers ([audiences](audiences.md#who-is-in-which-tier)), the same in "
        "every process. If empty, P0 are VIPs active within 7 days, P1 users active within 24 hours, "
        "and P2 users active within `NOTIFIER_P2_DAYS`.",
        is_valid=matches_pattern(r"|[A-Za-z_][\w.]*:[A-Za-z_]\w*"),
    )
    streams: int = setting(
        5_000,
        requirement="a whole number from 0 to 50000",
        meaning="Maximum number of live streams per API process. Each uses a file descriptor (`ulimit -n`) and "
        "about 10 kB.",
        is_valid=lambda streams: 0 <= streams <= MAX_STREAMS,
    )
    origins: str = setting(
        "",
        # No wildcard: the operator has to name each page that may show inboxes.
        requirement="empty, or origins like https://app.example or http://localhost:3000, joined by commas, without *",
        meaning="Origins of other pages on which `<notifier-inbox>` works. Write each as a browser does: in "
        "lower case, without a path and without the default port.",
        is_valid=lambda origins: not origins or all(_is_origin(origin) for origin in origins.split(",")),
    )
    jars: Path = setting(
        Path("~/.cache/notifier/jars"),
        requirement="a folder",
        meaning="Folder in which `notifier services` keeps the jars of Kafka and Cassandra, for every data folder.",
    )
    log_level: str = setting(
        "info",
        requirement=", ".join(LOG_LEVELS[:-1]) + f" or {LOG_LEVELS[-1]}",
        meaning="Minimum level of logged lines.",
        is_valid=lambda level: level.lower() in LOG_LEVELS,
    )
    demo: str = setting(
        "",
        requirement="empty, or four user ids separated by commas",
        meaning="Users of the page that `notifier demo` serves: a VIP, an active one, an occasional one and "
        "one who is away. If empty, there is no such page and no `/demo` routes.",
        is_valid=matches_pattern(r"|[^,\s]+(,[^,\s]+){3}"),
    )
    command: str = setting(
        "notifier",
        requirement="a shell command",
        meaning="Internal: `notifier demo` sets it. The commands that visitors can copy from its page begin with it.",
        is_valid=lambda text: bool(text.strip()),
    )
    kafka: KafkaSettings = KafkaSettings()
    cassandra: CassandraSettings = CassandraSettings()
    brokers: BrokerSettings = BrokerSettings()
    issuer: Issuer = Issuer()
    limits: RequestLimits = RequestLimits()
    inbox: InboxLimits = InboxLimits()
    reach: ReachSettings = ReachSettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    push: PushSettings = PushSettings()

    def __post_init__(self) -> None:
        if self.demo and self.issuer.name:
            raise BadSetting(f"A demo signs user tokens itself; remove {variable('issuer', 'name')}.")
        if self.insecure_dev and self.issuer.name:
            raise BadSetting(
                f"{variable('insecure_dev')} accepts local requests without a token; "
                f"remove {variable('issuer', 'name')}."
            )
        if self.insecure_dev and not is_loopback(self.host):
            raise BadSetting(f"{variable('insecure_dev')} requires a loopback host, got {self.host}.")
        if self.push.web.loopback and not self.insecure_dev:
            raise BadSetting(
                f"{variable('push', 'web', 'loopback')} is for development only; it requires "
                f"{variable('insecure_dev')}."
            )

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None, /, **arguments: Any) -> Self:
        """Read the settings, as `read_settings` does. Raises BadSetting."""
        return read_settings(cls, environment, arguments)


def _is_origin(text: str) -> bool:
    match = ORIGIN_PATTERN.fullmatch(text)
    return match is not None and match[4] != DEFAULT_PORTS[match[1]] and int((match[4] or ":0")[1:]) <= MAX_PORT
