"""Settings of push alerts: audience, frequency caps, credentials and fake providers."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from notifier.config.setting_field import SettingEntry, setting, setting_entries, variable
from notifier.config.token_issuer import is_loopback
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.errors import BadSetting
from notifier.domain.ids import Platform
from notifier.domain.push.device_validation import KNOWN_HOSTS, PushServices
from notifier.domain.push.frequency_cap import CapLimits
from notifier.domain.push.rate_limit import PROVIDER_LIMITS, ProviderLimit

MAX_COUNT = 1_000_000_000
"""A larger count is rejected as a typing error."""
OWN_LIBRARY, GOOGLE_LIBRARY = "notifier", "firebase-admin"
FCM_LIBRARIES = (OWN_LIBRARY, GOOGLE_LIBRARY)
FAKE_MODES = ("auto", "on", "off")
MIN_PER_MINUTE = 20
"""Minimum of each `per_minute`. Without Redis each worker gets a tenth: 2, because a limit of 1 allows no alerts."""
FILE_REQUIREMENT = "a file"
"""Requirement of every setting that is a path. `PushSettings.toml` makes the values of these settings absolute."""
TOPIC_PATTERN = r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*"
"""An APNs topic: the bundle id of an app."""


DEVELOPMENT_ONLY_KEYS = ("push.web.loopback",)
"""Settings that are valid only together with `insecure_dev`."""


def _count_setting(default: int, meaning: str, *, minimum: int = 0) -> int:
    field: int = setting(
        default,
        requirement=f"a whole number from {minimum} to {MAX_COUNT}",
        meaning=meaning,
        is_valid=lambda count: minimum <= count <= MAX_COUNT,
    )
    return field


def _is_safe_origin(text: str) -> bool:
    """Accept only an origin with TLS or of a loopback host: secrets and alerts are sent there."""
    try:
        url = urlsplit(text)
        is_bare = url.hostname and text.isascii() and not (url.path or url.query or url.fragment or "@" in url.netloc)
        return (
            bool(is_bare)
            and url.port != 0
            and (url.scheme == "https" or (url.scheme == "http" and _is_loopback(url.hostname)))
        )
    except ValueError:
        return False


def _is_loopback(host: str | None) -> bool:
    return host is not None and is_loopback(host)


def _origin_setting(meaning: str) -> str:
    field: str = setting(
        "",
        requirement="empty, or https:// and a host without a path (http:// for loopback)",
        meaning=meaning,
        is_valid=lambda text: not text or _is_safe_origin(text),
    )
    return field


def _fake_setting() -> str:
    field: str = setting(
        "",
        requirement="empty, or a loopback http:// or https:// URL without a path",
        meaning="URL of a fake provider (`notifier fake`) for these devices, if `NOTIFIER_PUSH_FAKES` selects "
        "fakes for them. If empty, `notifier up` starts one.",
        is_valid=lambda text: not text or (_is_safe_origin(text) and _is_loopback(urlsplit(text).hostname)),
    )
    return field


def _file_setting(meaning: str) -> str:
    field: str = setting("", requirement=FILE_REQUIREMENT, meaning=meaning)
    return field


@dataclass(frozen=True, slots=True, kw_only=True)
class ApnsSettings:
    key: str = _file_setting("APNs key, Apple's AuthKey_….p8. If empty, there are no credentials for Apple devices.")
    key_id: str = setting(
        "", requirement="ten capital letters and digits", meaning="Id of the key, as Apple shows it beside the key."
    )
    team_id: str = setting(
        "", requirement="ten capital letters and digits", meaning="Id of the team that owns the key."
    )
    topics: str = setting(
        "",
        requirement="empty, or bundle ids of apps, separated by commas",
        meaning="Apps that the key may send to. Devices of other apps are rejected at registration, and get no "
        "alerts. If empty, all apps are allowed.",
        is_valid=lambda topics: not topics or re.fullmatch(rf"{TOPIC_PATTERN}(,{TOPIC_PATTERN})*", topics) is not None,
    )
    production: str = _origin_setting(
        "Apple's server for devices of the environment `production`. If empty, Apple's own."
    )
    sandbox: str = _origin_setting("Apple's server for devices of the environment `sandbox`. If empty, Apple's own.")
    # Apple publishes no limit (TN2265). The default is twice Google's quota.
    per_minute: int = _count_setting(
        1_200_000, "Alerts per minute to Apple devices, for all workers together.", minimum=MIN_PER_MINUTE
    )
    fake: str = _fake_setting()

    def __post_init__(self) -> None:
        if self.key and not (self.key_id and self.team_id):
            ids = " and ".join(variable("push", "apns", name) for name in ("key_id", "team_id"))
            raise BadSetting(f"{variable('push', 'apns', 'key')} also needs {ids}.")

    @property
    def is_configured(self) -> bool:
        return bool(self.key)

    @property
    def allowed_topics(self) -> frozenset[str]:
        return frozenset(filter(None, self.topics.split(",")))


@dataclass(frozen=True, slots=True, kw_only=True)
class FcmSettings:
    account: str = _file_setting("Google service account file (JSON). If empty, there are no credentials for Firebase.")
    origin: str = _origin_setting("Google's FCM server. If empty, Google's own.")
    library: str = setting(
        OWN_LIBRARY,
        requirement=" or ".join(FCM_LIBRARIES),
        meaning="Library whose tokens and connections carry alerts. Google's is an optional extra, and slower: "
        '`pip install "notifier[firebase-admin]"`.',
        is_valid=lambda name: name in FCM_LIBRARIES,
    )
    # Google's default quota per project.
    per_minute: int = _count_setting(
        600_000, "Alerts per minute through Firebase, for all workers together.", minimum=MIN_PER_MINUTE
    )
    fake: str = _fake_setting()

    @property
    def is_configured(self) -> bool:
        return bool(self.account)

    @property
    def uses_google_library(self) -> bool:
        return self.library == GOOGLE_LIBRARY


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPushSettings:
    key: str = _file_setting("Web Push key, PEM on the curve P-256. If empty, there are no credentials for browsers.")
    subject: str = setting(
        "",
        requirement="mailto: and an address, or an https:// URL, that others can reach",
        meaning="Contact address for push services, in case of problems with alerts.",
    )
    hosts: str = setting(
        ",".join(KNOWN_HOSTS),
        requirement="host names separated by commas; *. in front includes all subdomains",
        meaning="Allowed push services. Browsers of other services are rejected at registration, and no alert "
        "is sent there.",
    )
    loopback: bool = setting(
        False,
        requirement="true or false",
        meaning="Allow endpoints on this machine, without TLS. For development only, together with "
        f"`{variable('insecure_dev')}`.",
    )
    # No push service publishes a limit. The default is less than one core can send.
    per_minute: int = _count_setting(
        300_000, "Alerts per minute to browsers, for all workers together.", minimum=MIN_PER_MINUTE
    )
    fake: str = _fake_setting()

    def __post_init__(self) -> None:
        _ = self.services  # raises if a host is invalid
        if self.key and not self.subject:
            raise BadSetting(f"{variable('push', 'web', 'key')} also needs {variable('push', 'web', 'subject')}.")

    @property
    def is_configured(self) -> bool:
        return bool(self.key)

    @property
    def services(self) -> PushServices:
        hosts = tuple(filter(None, self.hosts.split(",")))
        return PushServices(hosts=hosts, allows_loopback=self.loopback, is_production=not self.loopback)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    tiers: str = setting(
        "p0,p1",
        requirement=f"empty, or any of {', '.join(TIERS)}, separated by commas",
        meaning="Tiers whose users get alerts by default; if empty, none. Users who asked for alerts get them "
        "in every tier ([audiences](audiences.md#who-is-alerted)).",
        is_valid=lambda text: not text or set(text.split(",")) <= set(TIERS),
    )
    hourly: int = _count_setting(5, "Alerts per user and hour. 0: no limit.")
    daily: int = _count_setting(20, "Alerts per user in 24 hours. 0: no limit.")
    fakes: str = setting(
        FAKE_MODES[0],
        requirement=", ".join(FAKE_MODES[:-1]) + f" or {FAKE_MODES[-1]}",
        meaning="Which alerts go to fake providers. auto: those of platforms without credentials; on: all; off: none.",
        is_valid=lambda value: value in FAKE_MODES,
    )
    fake_script: str = setting(
        "",
        requirement="empty, or a script such as `gone=2%,latency=50ms`",
        meaning="Faults of the fakes that `notifier up` starts ([push](push.md#fakes)).",
    )
    apns: ApnsSettings = ApnsSettings()
    fcm: FcmSettings = FcmSettings()
    web: WebPushSettings = WebPushSettings()

    @property
    def pushed_tiers(self) -> Sequence[Tier]:
        """Tiers whose members are alerted by default."""
        return [tier for tier in TIERS if tier in self.tiers.split(",")]

    def settings_for(self, platform: Platform) -> ApnsSettings | FcmSettings | WebPushSettings:
        match platform:
            case Platform.APNS:
                return self.apns
            case Platform.FCM:
                return self.fcm
            case Platform.WEB:
                return self.web

    def uses_fake(self, platform: Platform) -> bool:
        return self.fakes == "on" or (self.fakes == "auto" and not self.settings_for(platform).is_configured)

    @property
    def with_all_faked(self) -> Self:
        """Copy in which all alerts go to fakes, without the URLs of the current fakes."""
        return replace(self, fakes="on").with_fakes(dict.fromkeys(Platform, ""))

    def with_fakes(self, origins: Mapping[Platform, str]) -> Self:
        sections = {
            str(platform): replace(self.settings_for(platform), fake=origin) for platform, origin in origins.items()
        }
        return replace(self, **sections)  # type: ignore[arg-type]  # each value has the type of its field

    @property
    def toml(self) -> str:
        """Content of PUSH_FILE, for other processes on this machine: values that are not the default.

        Paths are absolute. Settings that need `insecure_dev` are left out.
        """
        values = [(entry, reduce(getattr, entry.path[1:], self)) for entry in setting_entries(type(self), ("push",))]
        return "".join(
            f"{entry.key} = {_toml(entry, value)}\n"
            for entry, value in values
            if value != entry.default and entry.key not in DEVELOPMENT_ONLY_KEYS
        )

    def uses_real_provider(self, platform: Platform) -> bool:
        return self.settings_for(platform).is_configured and self.fakes != "on"

    @property
    def provider_limits(self) -> Mapping[Platform, ProviderLimit]:
        """Rate limit of each platform, for all workers together."""
        return {
            platform: replace(PROVIDER_LIMITS[platform], per_minute=self.settings_for(platform).per_minute)
            for platform in Platform
        }

    @property
    def caps(self) -> CapLimits:
        return CapLimits(hourly=self.hourly, daily=self.daily)


def _toml(entry: SettingEntry, value: object) -> str:
    """Format a value as TOML. JSON strings, numbers and booleans are valid TOML."""
    return json.dumps(
        str(Path(str(value)).absolute()) if entry.rule.requirement == FILE_REQUIREMENT else value, ensure_ascii=False
    )
