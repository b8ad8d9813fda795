"""Validation of device addresses: malformed ones are refused before any provider is called."""

import re
from base64 import urlsafe_b64decode
from binascii import Error as NotBase64
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from notifier.domain.errors import BadDevice, BadSetting, ForeignDevice
from notifier.domain.push.device import (
    ApnsEnvironment,
    AppleToken,
    FirebaseInstallation,
    FirebaseToken,
    WebSubscription,
)
from notifier.domain.users.quiet_hours import is_known_zone

# Web Push endpoints: the URL that a browser created for its alerts.
#
# A client can register any URL, and this service would call it from inside its own network (SSRF). So a URL is accepted
# only in the form that browsers write, at the host of a known push service. For each connection
# `adapters/push/webpush/ssrf_guard.py` checks that the host resolves to a public address.

KNOWN_HOSTS = (
    "fcm.googleapis.com",  # Chrome, Edge on Android, Opera, Samsung Internet, Brave
    "*.push.apple.com",  # Safari; Apple asks to allow all subdomains, though only web.push.apple.com is in use
    "updates.push.services.mozilla.com",  # Firefox
    "*.notify.windows.com",  # Edge on Windows
)
LOOPBACK_HOSTS = ("localhost", "127.0.0.1")
"""Hosts of a fake push service on this machine."""
MAX_ENDPOINT_LENGTH = 2048
"""Endpoints of Windows have about 700 characters."""
HTTPS_PORT = 443

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = rf"(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?"
# Forms of a URL as the URL standard serializes it: a lowercase host, other alphabets as xn--, no user, fragment or
# backslash.
# The last label must not start with a digit, so that no spelling of an IP address matches.
_PATH = r"/[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]*"
_REMOTE_URL = re.compile(rf"https://({_HOST})(?::443)?({_PATH})", re.ASCII)
_LOOPBACK_URL = re.compile(
    rf"(https?)://({'|'.join(map(re.escape, LOOPBACK_HOSTS))})(?::([1-9]\d{{0,4}}))?({_PATH})", re.ASCII
)
_HOST_PATTERN = re.compile(rf"(?:\*\.)?{_HOST}", re.ASCII)


class UnknownService(ValueError):
    """The endpoint is well-formed, but its host is no accepted push service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A validated Web Push endpoint."""

    scheme: str
    host: str
    port: int
    path: str
    """Path and query."""

    @property
    def origin(self) -> str:
        """Return the origin (RFC 6454) without a default port: the audience of a VAPID token."""
        default_port = HTTPS_PORT if self.scheme == "https" else 80
        return f"{self.scheme}://{self.host}" + ("" if self.port == default_port else f":{self.port}")

    @property
    def origin_with_port(self) -> str:
        """Return the target of connections."""
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushServices:
    """Accepted push services. Raises BadSetting for an invalid host, or if `allows_loopback` is set in production."""

    hosts: tuple[str, ...] = KNOWN_HOSTS
    """Lowercase host names. `*.` in front matches all subdomains, but not the domain itself."""
    allows_loopback: bool = False
    """Accept a fake push service on this machine as well, with or without TLS. For development only."""
    is_production: bool = True

    def __post_init__(self) -> None:
        for host in self.hosts:
            if not _HOST_PATTERN.fullmatch(host) or host in LOOPBACK_HOSTS:
                raise BadSetting(
                    f"{host!r} is not the name of a push service; use a host name with a dot, such as "
                    "push.example.com, or *.push.example.com for all its subdomains."
                )
        if self.allows_loopback and self.is_production:
            raise BadSetting("A push service on a loopback address is for development; this is production.")

    def endpoint(self, url: str) -> Endpoint:
        """Parse an endpoint. Raises UnknownService if its host isn't accepted, and ValueError for any other fault.

        The message never contains the URL, which is a secret of its browser.
        """
        if len(url) > MAX_ENDPOINT_LENGTH:
            raise ValueError(f"it has more than {MAX_ENDPOINT_LENGTH} characters")
        if (
            self.allows_loopback
            and (local := _LOOPBACK_URL.fullmatch(url))
            and (endpoint := _loopback_endpoint(*local.groups()))
        ):
            return endpoint
        if not (remote := _REMOTE_URL.fullmatch(url)):
            raise ValueError("it must be an https:// URL as browsers write it, of a host on port 443")
        host, path = remote.groups()
        if not any(_covers(pattern, host) for pattern in self.hosts):
            raise UnknownService("its host is not a known push service")
        return Endpoint(scheme="https", host=host, port=HTTPS_PORT, path=path)


def _loopback_endpoint(scheme: str, host: str, port: str | None, path: str) -> Endpoint | None:
    number = int(port or (HTTPS_PORT if scheme == "https" else 80))
    return Endpoint(scheme=scheme, host=host, port=number, path=path) if number < 65536 else None


def _covers(pattern: str, host: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


MAX_TOPIC_LENGTH, MAX_LOCALE_LENGTH, MAX_ZONE_LENGTH = 155, 35, 64
"""Maximum number of characters. A bundle id has at most 155; RFC 5646 advises 35 for a language tag; IANA zones have up
to 32."""
P256DH_BYTES, AUTH_BYTES = 65, 16
"""RFC 8291: an uncompressed P-256 point, and the authentication secret."""

# Apple's tokens have 32 bytes today, and may grow according to Apple.
_APPLE_TOKEN = re.compile(r"(?:[0-9a-f]{2}){32,100}")
_TOPIC = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
# Some 140 to 200 characters today; Google guarantees no length.
_FIREBASE_TOKEN = re.compile(r"[A-Za-z0-9_:-]{32,2048}")
# Base64url of 17 bytes that start with the bits 0111, cut to 22 characters.
_INSTALLATION_ID = re.compile(r"[cdef][A-Za-z0-9_-]{21}")
_LOCALE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_BASE64 = re.compile(r"[A-Za-z0-9_-]+={0,2}")

KNOWN_SERVICES = PushServices()

# Parameters of the curve P-256: y² = x³ - 3x + b, modulo the prime.
_CURVE_PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
_CURVE_B = 0x5AC635D8_AA3A93E7_B3EBBD55_769886BC_651D06B0_CC53B0F6_3BCE3C3E_27D2604B


def apple_token(token: str, topic: str, environment: str, *, topics: Collection[str] = ()) -> AppleToken:
    """Validate an APNs token. Raises BadDevice, or ForeignDevice for a topic that is not in `topics` (empty: any)."""
    lowercase = token.lower()
    if not _APPLE_TOKEN.fullmatch(lowercase):
        _refuse("An APNs token has 64 to 200 hexadecimal digits, an even number.")
    if len(topic) > MAX_TOPIC_LENGTH or not _TOPIC.fullmatch(topic):
        _refuse(
            "topic must be the bundle id of the app, such as com.example.app, with at most "
            f"{MAX_TOPIC_LENGTH} characters."
        )
    if environment not in set(ApnsEnvironment):
        _refuse(f"Unknown environment: {environment[:40]!r}; use one of {', '.join(ApnsEnvironment)}.")
    if topics and topic not in topics:
        raise ForeignDevice("This service sends no alerts to the app that `topic` names.")
    return AppleToken(token=lowercase, topic=topic, environment=ApnsEnvironment(environment))


def firebase_token(token: str) -> FirebaseToken:
    if not _FIREBASE_TOKEN.fullmatch(token):
        _refuse("An FCM token has 32 to 2048 letters, digits, _, - and :.")
    return FirebaseToken(token=token)


def firebase_installation(fid: str) -> FirebaseInstallation:
    if not _INSTALLATION_ID.fullmatch(fid):
        _refuse("A fid has 22 letters, digits, _ and -, and begins with c, d, e or f.")
    return FirebaseInstallation(fid=fid)


def web_subscription(
    endpoint: str, key: str, secret: str, *, services: PushServices = KNOWN_SERVICES
) -> WebSubscription:
    """Validate a Web Push subscription. Raises BadDevice, or ForeignDevice for a host that is no accepted service.

    Does not resolve the host: the address is checked when a connection is made.
    """
    point = _decode_base64(key, P256DH_BYTES, "p256dh")
    if not _is_on_curve(point):
        _refuse("p256dh is not a point on P-256.")
    return WebSubscription(
        endpoint=_valid_endpoint(endpoint, services), key=point, secret=_decode_base64(secret, AUTH_BYTES, "auth")
    )


def locale(tag: str) -> str:
    """Validate a language tag such as `de` or `pt-BR`; `pt_BR` is accepted and normalized. Raises BadDevice."""
    if len(tag) > MAX_LOCALE_LENGTH or not _LOCALE.fullmatch(tag):
        _refuse("locale must be a language tag such as pt-BR.")
    return tag.replace("_", "-")


def time_zone(name: str) -> str:
    """Validate an IANA time zone. Raises BadDevice."""
    if len(name) > MAX_ZONE_LENGTH or not is_known_zone(name):
        _refuse("time_zone must be an IANA time zone such as Europe/Berlin.")
    return name


def _valid_endpoint(url: str, services: PushServices) -> str:
    try:
        services.endpoint(url)
    except UnknownService as error:
        raise ForeignDevice(f"The endpoint is rejected: {error}.") from error
    except ValueError as error:
        raise BadDevice(f"The endpoint is rejected: {error}.") from error
    return url


def _decode_base64(text: str, size: int, field: str) -> bytes:
    decoded = b""
    if len(text) <= 2 * size and _BASE64.fullmatch(text):
        unpadded = text.rstrip("=")
        with suppress(NotBase64):
            decoded = urlsafe_b64decode(unpadded + "=" * (-len(unpadded) % 4))
    if len(decoded) != size:
        _refuse(f"{field} must be {size} bytes as base64url.")
    return decoded


def _is_on_curve(point: bytes) -> bool:
    """Return whether the point is on P-256. With any other point the encryption of every alert would fail."""
    x, y = int.from_bytes(point[1:33]), int.from_bytes(point[33:])
    return point[0] == 4 and max(x, y) < _CURVE_PRIME and (y * y - (x * x - 3) * x - _CURVE_B) % _CURVE_PRIME == 0


def _refuse(message: str) -> NoReturn:
    raise BadDevice(message)
