"""Parses Redis URLs that name sentinels or a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.connection import SSLConnection, parse_url

from notifier.config.setting_field import split_url
from notifier.domain.errors import BadSetting

Host = tuple[str, int]
"""Host name and port."""

SENTINEL, CLUSTER = "sentinel", "cluster"
DEFAULT_PORTS = {SENTINEL: 26379, CLUSTER: 6379}


@dataclass(frozen=True, slots=True)
class MultiHostAddress:
    """Address with several hosts, from a sentinel or cluster URL.

    The forms are `redis+sentinel://h1:26379,h2:26379/mymaster/0` and `redis+cluster://h1:6379,h2:6379`, or `rediss+…`
    with TLS.
    """

    kind: str
    """SENTINEL or CLUSTER."""
    hosts: Sequence[Host]
    service: str
    """Name under which the sentinels know the primary; empty for a cluster."""
    options: dict[str, Any]
    """Connection options, such as user name, password, database and TLS."""


def multi_host_address(url: str) -> MultiHostAddress | None:
    """Parse a sentinel or cluster URL; return None for the URL of one server. Raises BadSetting."""
    scheme, plus, kind = split_url(url).scheme.partition("+")
    if not plus:
        return None
    try:
        parts = split_url(url)
        user, at_sign, hosts = parts.netloc.rpartition("@")
        path = [unquote(part) for part in parts.path.split("/") if part]
        service = path.pop(0) if kind == SENTINEL else ""
        # redis-py parses all other options, such as a CA certificate, from the URL of a single server.
        single_server_url = f"{scheme}://{user}{at_sign}host/{'/'.join(path)}?{parts.query}"
        return MultiHostAddress(
            kind, [_host(host, DEFAULT_PORTS[kind]) for host in hosts.split(",")], service, _options(single_server_url)
        )
    except (ValueError, IndexError, KeyError):
        # The original message is dropped: it may quote an unescaped password.
        raise BadSetting(
            "The Redis URL is invalid; write redis+sentinel://HOST:26379/SERVICE or redis+cluster://HOST:6379."
        ) from None


def _host(text: str, default_port: int) -> Host:
    parts = urlsplit(f"//{text}")
    if not parts.hostname:
        raise ValueError("a host has no name")
    return parts.hostname, parts.port or default_port


def _options(url: str) -> dict[str, Any]:
    options: dict[str, Any] = dict(parse_url(url))  # type: ignore[no-untyped-call] # the library has no types here
    del options["host"]
    if options.pop("connection_class", None) is SSLConnection:
        options["ssl"] = True
    return options
