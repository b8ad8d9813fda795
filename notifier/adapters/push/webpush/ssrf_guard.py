"""The guard: a name that leads into a network of ours is not connected to, whoever registered it and whenever it moved.

A transport connects to the addresses that come out of here and asks nobody else, so there is no moment between the
check and the connection in which a name could come to mean something else.
"""

from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from notifier.domain.push.device_address import LOOPBACK, PushServices

Resolver = Callable[[str, int], Sequence[str]]
"""Host and port to IP addresses. Raises OSError."""

_INTERNET_6 = ip_network("2000::/3")
"""All that is handed out; it leaves out loopback, mapped and compatible IPv4, link-local, unique local, multicast."""
_NAT64 = ip_network("64:ff9b::/96")
"""How clusters without IPv4 reach the rest: what follows is an IPv4 address."""
_TUNNELS = tuple(map(ip_network, ("2001::/32", "2002::/16")))
"""Teredo and 6to4 carry an IPv4 address, too, and no push service is reached so."""
_NOBODY_4 = tuple(map(ip_network, ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4")))
"""What some versions of Python call global, or not private: this network, carriers' NAT, protocols, 6to4, reserved."""
_NOBODY_6 = tuple(map(ip_network, ("2001:db8::/32", "3fff::/20")))
"""Of the documentation, for the same reason."""


class Blocked(OSError):
    """A name that leads somewhere where this service sends nothing."""


def guarded(resolve: Resolver, services: PushServices) -> Resolver:
    """The addresses of a push service. Raises Blocked unless every one of them is public: a name that leads to both is
    no push service's, and a client that falls back from one to the next would find the other."""

    def addresses(host: str, port: int) -> Sequence[str]:
        near = services.loopback and host in LOOPBACK
        found = tuple(resolve(host, port))
        if not found:
            raise OSError(f"{host} has no address")
        if wrong := [one for one in found if not (_is_loopback(one) if near else is_public(one))]:
            raise Blocked(f"{host} leads to {wrong[0]}, which is not {'this machine' if near else 'public'}")
        return found

    return addresses


def is_public(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return _public_4(found) if isinstance(found, IPv4Address) else _public_6(found)


def _public_4(address: IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and not any(address in network for network in _NOBODY_4)


def _public_6(address: IPv6Address) -> bool:
    if address.scope_id:
        return False
    if address in _NAT64:
        return _public_4(IPv4Address(address.packed[-4:]))
    elsewhere = address in _INTERNET_6 and address.is_global
    return elsewhere and not any(address in network for network in (*_TUNNELS, *_NOBODY_6))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
