"""The settings tree: all top-level settings and sections."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from notifier.config.auth import Issuer, is_loopback
from notifier.config.cluster import MOST_PORT, REDIS, BrokerSettings, CassandraSettings, KafkaSettings, matches
from notifier.config.field import Hides, setting, variable
from notifier.config.loader import read
from notifier.config.push import PushSettings
from notifier.config.sections import DeadLetterSettings, InboxLimits, ReachSettings, RequestLimits
from notifier.domain.audience.activity import REACHES
from notifier.domain.errors import BadSetting

CELEBRITY_THRESHOLD = 1_000_000
"""Followers that make an account a celebrity, as required by the product specification."""
HYSTERESIS = 0.9
"""An account stays a celebrity until it falls to this share of the threshold. Prevents flapping at the threshold."""

LONGEST_COLLAPSE = timedelta(days=1)
"""Longest collapse window. A burst is announced once, so it must not absorb mentions of a later day."""
MONITORS = timedelta(seconds=0.1), timedelta(hours=1)
"""Bounds of the monitor's interval. A shorter one is a busy loop; a longer one measures stale backpressure."""
ROLLS_UP = timedelta(seconds=1), timedelta(hours=1)
"""Bounds of the roll-up interval. A shorter one is a busy loop; with a longer one a process that starts may miss an
hour of activity."""
MOST_API_WORKERS = 64
"""Each process takes 40 MB and its own connections to the engines. For more, add machines."""
MOST_STREAMS = 50_000
"""Upper bound of live streams: more connections than one process can notify within a second."""
ORIGIN = re.compile(r"(https?)://([a-z0-9_]([a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:]+\])(:[1-9][0-9]{0,4})?")
"""Origin as a browser sends it, in lower case and without a path, because origins are compared as strings."""
OWN_PORTS = {"http": ":80", "https": ":443"}
"""Default ports, which browsers omit from an origin."""
SHORTEST_SECRET = 32
"""Bytes. HS256 needs a key of at least the length of its hash."""
LEVELS = ("debug", "info", "warning", "error", "critical")
PROFILES = ("embedded", "cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data: Path = setting(
        Path("./notifier-data"),
        must="a folder",
        means="holds everything durable of the embedded profile, and what runs, keys and logs of both",
    )
    profile: str = setting(
        PROFILES[0],
        must=" or ".join(PROFILES),
        means="which technologies stand behind the ports ([architecture](architecture.md)); where it isn't said, that"
        " of the `notifier up` that ran last on the data counts before the default",
        holds=lambda name: name in PROFILES,
    )
    instance: str = setting(
        "",
        must="empty, or letters, digits, dots, dashes and underscores",
        means="this installation's name among others of the cluster, the same after a restart; none: made of the host's"
        " name and the folder's",
        holds=matches(r"[A-Za-z0-9._-]{0,90}"),
    )
    host: str = setting(
        "127.0.0.1",
        must="a host name or an address",
        means="what the API listens on",
        holds=matches(r"\S+"),
    )
    port: int = setting(
        8080,
        must="a whole number from 0 to 65535",
        means="its port; 0 takes any free one",
        holds=lambda port: 0 <= port <= MOST_PORT,
    )
    api_workers: int | None = setting(
        None,
        must=f"a whole number from 1 to {MOST_API_WORKERS}",
        means="processes of the API that `notifier up` starts on this port; more than one needs Linux. none: by the"
        " number of processors ([operations](operations.md#more-than-one-api-process))",
        holds=lambda count: count is None or 1 <= count <= MOST_API_WORKERS,
    )
    redis_url: str = setting(
        "",
        must="empty, or a redis://, rediss:// or unix:// address, redis+sentinel://host,host/name or"
        " redis+cluster://host,host",
        means="a Redis or Valkey to use; none: `up` starts and watches its own. Several hosts are asked in turn for the"
        " sentinels' primary of that name, or for the cluster's nodes, where each pool also needs a broker of its own;"
        " `rediss+sentinel` and `rediss+cluster` are the same with TLS, and sentinels take the same password",
        holds=matches(f"|{REDIS}"),
        hides=Hides.PASSWORD,
    )
    threshold: int = setting(
        CELEBRITY_THRESHOLD,
        must="a whole number from 1 on",
        means="followers from which on an account is a celebrity; it stays one down to nine tenths of that",
        holds=lambda followers: followers >= 1,
    )
    collapse: timedelta | None = setting(
        None,
        must="a number of seconds from 0 to 86400",
        means="the least collapse window of every subject; 0: one burst a mention, for accounts with at most 100,000"
        " followers (the others keep 60 s, for a fan-out each would reach everybody again and again); none: the"
        " subject's policy",
        holds=lambda window: window is None or timedelta(0) <= window <= LONGEST_COLLAPSE,
    )
    refill: timedelta | None = setting(
        None,
        must="a number of seconds from 1 to 86400",
        means="until a subject that has spent its 6 fan-outs in a row may have another; none: the subject's policy,"
        " 3600; `notifier demo` gives 60",
        holds=lambda wait: wait is None or timedelta(seconds=1) <= wait <= LONGEST_COLLAPSE,
    )
    secret: str = setting(
        "",
        must=f"empty, or {SHORTEST_SECRET} bytes long or longer",
        means="signs tokens and cursors; none: made once and kept in the data folder",
        holds=lambda secret: not secret or len(secret.encode(errors="surrogateescape")) >= SHORTEST_SECRET,
        hides=Hides.ALL,
    )
    insecure_dev: bool = setting(
        False,
        must="true or false",
        means="whoever asks at this machine is let in without a key, and as the person that `Authorization: User ada`"
        " names: for development alone, on a loopback address, and without an issuer ([http](http.md#without-a-key))",
    )
    service_keys: str = setting(
        "",
        must="a file",
        means="the book of `notifier key`, which holds hashes and no keys; none: `service_keys.json` in the data"
        " folder",
    )
    monitor_every: timedelta = setting(
        timedelta(seconds=10),
        must="a number of seconds from 0.1 to 3600",
        means="how often the monitor measures how much P2 must give way",
        holds=lambda every: MONITORS[0] <= every <= MONITORS[1],
    )
    roll_up_every: timedelta = setting(
        timedelta(minutes=1),
        must="0, or a number of seconds from 1 to 3600",
        means="how often who opened the tab becomes active, which decides over tiers; 0: never, and tiers stay as they"
        " were loaded, as `notifier demo` and the benchmarks want it",
        holds=lambda every: not every or ROLLS_UP[0] <= every <= ROLLS_UP[1],
    )
    p2_days: int = setting(
        REACHES[-1],
        must=", ".join(map(str, REACHES[:-1])) + f" or {REACHES[-1]}",
        means="P2's reach: within how many days a celebrity's follower has to have been active",
        holds=lambda days: days in REACHES,
    )
    tier_rule: str = setting(
        "",
        must="empty, or module:function",
        means="who is in which tier ([audiences](audiences.md#who-is-in-which-tier)), the same for every process; none:"
        " VIPs of the last 7 days, who was around within 24 hours, and who was within P2's reach",
        holds=matches(r"|[A-Za-z_][\w.]*:[A-Za-z_]\w*"),
    )
    streams: int = setting(
        5_000,
        must="a whole number from 0 to 50000",
        means="live streams that one API process keeps open; each takes a file descriptor (`ulimit -n`)"
        " and about 10 kB",
        holds=lambda streams: 0 <= streams <= MOST_STREAMS,
    )
    origins: str = setting(
        "",
        # No wildcard: the operator has to name each page that may show inboxes.
        must="empty, or origins like https://app.example or http://localhost:3000 with commas between them, and no *",
        means="pages of other origins on which `<notifier-inbox>` works; each as a browser writes it: in small letters,"
        " without a path and without the usual port",
        holds=lambda origins: not origins or all(_is_origin(origin) for origin in origins.split(",")),
    )
    jars: Path = setting(
        Path("~/.cache/notifier/jars"),
        must="a folder",
        means="where `notifier services` keeps the jars of Kafka and Cassandra, for every data folder",
    )
    log_level: str = setting(
        "info",
        must=", ".join(LEVELS[:-1]) + f" or {LEVELS[-1]}",
        means="the least important line that is logged",
        holds=lambda level: level.lower() in LEVELS,
    )
    demo: str = setting(
        "",
        must="empty, or four user ids with commas between them",
        means="a VIP, one who is active, one who comes now and then and one who is away: the people of the page that"
        " `notifier demo` serves; none: no such page and no `/demo` routes",
        holds=matches(r"|[^,\s]+(,[^,\s]+){3}"),
    )
    command: str = setting(
        "notifier",
        must="words for a shell",
        means="how the lines to copy on the page of `notifier demo` begin; it sets this itself",
        holds=lambda words: bool(words.strip()),
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
            raise BadSetting(f"A demo signs its people's tokens itself; take {variable('issuer', 'name')} away for it.")
        if self.insecure_dev and self.issuer.name:
            raise BadSetting(
                f"{variable('insecure_dev')} lets everybody in; take {variable('issuer', 'name')} away for it."
            )
        if self.insecure_dev and not is_loopback(self.host):
            raise BadSetting(f"{variable('insecure_dev')} is for a loopback address alone, and not for {self.host}.")
        if self.push.web.loopback and not self.insecure_dev:
            raise BadSetting(
                f"{variable('push', 'web', 'loopback')} is for development alone, with {variable('insecure_dev')}."
            )

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None, /, **given: Any) -> Self:
        """Read settings from `given`, the environment (NOTIFIER_DATA, NOTIFIER_PORT, …) and the settings file.

        The first source that has a setting wins. Durations are in seconds. Raises BadSetting.
        """
        return read(cls, environment, given)


def _is_origin(text: str) -> bool:
    match = ORIGIN.fullmatch(text)
    return match is not None and match[4] != OWN_PORTS[match[1]] and int((match[4] or ":0")[1:]) <= MOST_PORT
