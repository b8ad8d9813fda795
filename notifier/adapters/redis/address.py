"""The addresses of a Redis: one server, the primary that sentinels know of, or a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.connection import SSLConnection, parse_url

from notifier.config.field import split
from notifier.domain.errors import BadSetting

Host = tuple[str, int]

SENTINEL, CLUSTER = "sentinel", "cluster"
DEFAULT_PORTS = {SENTINEL: 26379, CLUSTER: 6379}


@dataclass(frozen=True, slots=True)
class Several:
    """`redis+sentinel://h1:26379,h2:26379/mymaster/0` or `redis+cluster://h1:6379,h2:6379`, or `rediss+…` with TLS."""

    kind: str
    hosts: Sequence[Host]
    service: str
    options: dict[str, Any]
    """Of every connection: who asks, the database, TLS. Sentinels are asked by the same name and password."""


def several(url: str) -> Several | None:
    """None for an address of one server. Raises BadSetting."""
    scheme, plus, kind = split(url).scheme.partition("+")
    if not plus:
        return None
    try:
        parts = split(url)
        user, at, hosts = parts.netloc.rpartition("@")
        path = [unquote(part) for part in parts.path.split("/") if part]
        service = path.pop(0) if kind == SENTINEL else ""
        # What else a URL may say, an authority's certificate for one, is said as in a URL of one server.
        plain = f"{scheme}://{user}{at}host/{'/'.join(path)}?{parts.query}"
        return Several(kind, [_host(one, DEFAULT_PORTS[kind]) for one in hosts.split(",")], service, _options(plain))
    except (ValueError, IndexError, KeyError):
        # Without its words, which quote a password that isn't escaped.
        raise BadSetting(f"The Redis URL isn't one of {' or '.join(DEFAULT_PORTS)}.") from None


def _host(text: str, port: int) -> Host:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a host has no name")
    return parts.hostname, parts.port or port


def _options(url: str) -> dict[str, Any]:
    options: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call] # the library has no types here
    del options["host"]
    if options.pop("connection_class", None) is SSLConnection:
        options["ssl"] = True
    return options
