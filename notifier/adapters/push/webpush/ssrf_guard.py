"""SSRF guard: a resolver that rejects push service names with non-public addresses.

Clients register the names, and the owner of a name may change its addresses at any time. The transport connects only
to addresses that this resolver returned. So a change between the check and the connection has no effect (DNS
rebinding).
"""

from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from notifier.domain.push.device_validation import LOOPBACK_HOSTS, PushServices

Resolver = Callable[[str, int], Sequence[str]]
"""Function from host and port to IP addresses. Raises OSError or ValueError."""

_ALLOCATED_IPV6 = ip_network("2000::/3")
"""Global IPv6 addresses: no loopback, mapped or compatible IPv4, link-local, unique local or multicast."""
_NAT64 = ip_network("64:ff9b::/96")
"""NAT64 prefix. Clusters without IPv4 use it to reach IPv4 addresses, which follow the prefix."""
_TUNNELS_IPV6 = tuple(map(ip_network, ("2001::/32", "2002::/16")))
"""Teredo and 6to4 addresses, which contain an IPv4 address like those of NAT64. No push service uses them."""
_RESERVED_IPV4 = tuple(map(ip_network, ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4")))
"""IPv4 networks that are not public. Some Python versions consider some of them global.

They are "this network", carrier-grade NAT, protocol assignments, 6to4 relays and reserved addresses.
"""
_DOCUMENTATION_IPV6 = tuple(map(ip_network, ("2001:db8::/32", "3fff::/20")))
"""IPv6 networks for documentation. Some Python versions consider the second one global."""


class BlockedAddress(OSError):
    """The name has an address that this service does not send to."""


def guarded(resolve: Resolver, services: PushServices) -> Resolver:
    """Wrap a resolver so that it raises BlockedAddress unless all addresses of a push service are public.

    A name with public and private addresses is blocked as a whole, because the transport tries the addresses in turn.
    A fake push service on this machine must have loopback addresses.
    """

    def addresses(host: str, port: int) -> Sequence[str]:
        must_be_loopback = services.allows_loopback and host in LOOPBACK_HOSTS
        resolved = tuple(resolve(host, port))
        if not resolved:
            raise OSError(f"{host} has no address")
        if rejected := [
            address for address in resolved if not (_is_loopback(address) if must_be_loopback else is_public(address))
        ]:
            raise BlockedAddress(
                f"{host} resolves to {rejected[0]}, which is not {('this machine' if must_be_loopback else 'public')}"
            )
        return resolved

    return addresses


def is_public(address: str) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return _is_public_ipv4(parsed) if isinstance(parsed, IPv4Address) else _is_public_ipv6(parsed)


def _is_public_ipv4(address: IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and not any(address in network for network in _RESERVED_IPV4)


def _is_public_ipv6(address: IPv6Address) -> bool:
    if address.scope_id:
        return False
    if address in _NAT64:
        return _is_public_ipv4(IPv4Address(address.packed[-4:]))
    is_allocated = address in _ALLOCATED_IPV6 and address.is_global
    return is_allocated and not any(address in network for network in (*_TUNNELS_IPV6, *_DOCUMENTATION_IPV6))


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False
