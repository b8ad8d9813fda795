"""An endpoint: the address that a browser gave for its alerts, and whose servers may be asked to take them.

Anybody can register any address, and this service would call it from inside its own network. So an address counts only
in the one form in which browsers write it, at a host that is known to be a push service; that the name leads nowhere
else is looked at when a connection is made (`adapters/push/webpush/guard.py`).
"""

import re
from dataclasses import dataclass

from notifier.domain.errors import BadSetting

KNOWN = (
    "fcm.googleapis.com",  # Chrome, Edge on Android, Opera, Samsung Internet, Brave
    "*.push.apple.com",  # Safari; Apple asks for all of them, though all that are seen are web.push.apple.com
    "updates.push.services.mozilla.com",  # Firefox
    "*.notify.windows.com",  # Edge on Windows
)
LOOPBACK = ("localhost", "127.0.0.1")
"""As a fake push service of this machine is called."""
LONGEST = 2048
"""Characters; those of Windows have about 700."""
HTTPS = 443

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = rf"(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?"
# As the URL standard writes them out: small letters, names of other alphabets as xn--, no user, fragment or backslash.
# And no number where a name ends, so that nothing is read as an IP address in any of its spellings.
_PATH = r"/[!$%&'()*+,\-./0-9:;=?@A-Z_a-z~]*"
_REMOTE = re.compile(rf"https://({_HOST})(?::443)?({_PATH})", re.ASCII)
_NEAR = re.compile(rf"(https?)://({'|'.join(map(re.escape, LOOPBACK))})(?::([1-9]\d{{0,4}}))?({_PATH})", re.ASCII)
_PATTERN = re.compile(rf"(?:\*\.)?{_HOST}", re.ASCII)


class UnknownService(ValueError):
    """An address as browsers write them, of somebody who is no push service here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    scheme: str
    host: str
    port: int
    path: str
    """With its query."""

    @property
    def origin(self) -> str:
        """As RFC 6454 writes it, without a port that goes without saying: what a VAPID token is for."""
        said = HTTPS if self.scheme == "https" else 80
        return f"{self.scheme}://{self.host}" + ("" if self.port == said else f":{self.port}")

    @property
    def line(self) -> str:
        """Where to connect to, with the port."""
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushServices:
    """Who may be asked. Raises BadSetting for what is no list of hosts, and for a loopback in production."""

    hosts: tuple[str, ...] = KNOWN
    """Names in small letters; with `*.` in front whatever ends so, but not that itself."""
    loopback: bool = False
    """A fake of this machine counts as well, without TLS: for development alone."""
    production: bool = True

    def __post_init__(self) -> None:
        for host in self.hosts:
            if not _PATTERN.fullmatch(host) or host in LOOPBACK:
                raise BadSetting(f"{host!r} is no name of a push service: a host with a dot, or *. and such a host.")
        if self.loopback and self.production:
            raise BadSetting("A push service on a loopback address is for development, and this is production.")

    def endpoint(self, url: str) -> Endpoint:
        """Raises ValueError, maybe UnknownService, with what is wrong; never with the address, which is a secret of
        its browser."""
        if len(url) > LONGEST:
            raise ValueError(f"it is longer than {LONGEST} characters")
        if self.loopback and (near := _NEAR.fullmatch(url)) and (found := _near(*near.groups())):
            return found
        if not (remote := _REMOTE.fullmatch(url)):
            raise ValueError("it is no https:// address as browsers write it, of a host on port 443")
        host, path = remote.groups()
        if not any(_covers(pattern, host) for pattern in self.hosts):
            raise UnknownService("its host is no push service that is known here")
        return Endpoint(scheme="https", host=host, port=HTTPS, path=path)


def _near(scheme: str, host: str, port: str | None, path: str) -> Endpoint | None:
    number = int(port or (HTTPS if scheme == "https" else 80))
    return Endpoint(scheme=scheme, host=host, port=number, path=path) if number < 65536 else None


def _covers(pattern: str, host: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
