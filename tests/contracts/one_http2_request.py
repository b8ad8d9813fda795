"""Sends one HTTP/2 request through its own transport, for tests of connection failures."""

from contextlib import closing
from pathlib import Path

from notifier.adapters.http2 import Http2Limits, Http2Transport, Resolver, resolve_addresses
from notifier.ports.push import NoReply, Post, Reply
from tests.contracts.http2_transports import LONG_TIMEOUTS


def post(origin: str, path: str = "/send", value: str = "a") -> Post:
    return Post(origin=origin, path=path, headers=[("x", value)], body=b"{}")


def exchange_one(
    origin: str,
    *,
    path: str = "/send",
    value: str = "a",
    clear: bool = True,
    limits: Http2Limits = LONG_TIMEOUTS,
    authorities: Path | None = None,
    resolver: Resolver = resolve_addresses,
) -> Reply | NoReply:
    transport = Http2Transport(limits=limits, allow_plaintext=clear, ca_file=authorities, resolver=resolver)
    with closing(transport):
        [(_, response)] = transport.exchange([post(origin, path, value)])
        return response


def not_sent(reason: str) -> NoReply:
    return NoReply(reason=reason, may_have_arrived=False)


def port(origin: str) -> int:
    return int(origin.rpartition(":")[2])
