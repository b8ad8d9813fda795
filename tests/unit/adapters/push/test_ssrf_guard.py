"""The SSRF guard lets no host name lead to a private address."""

from collections.abc import Sequence

import pytest

from notifier.adapters.push.webpush.ssrf_guard import BlockedAddress, guarded, is_public
from notifier.domain.push.device_validation import PushServices

SERVICES = PushServices()
DEVELOPMENT = PushServices(allows_loopback=True, is_production=False)
PUBLIC = ["142.250.74.10", "17.188.1.1", "2a00:1450:4001:82b::200a", "2620:149::1", "64:ff9b::8efa:4a0a"]
PRIVATE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1",
    "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:142.250.74.10", "::7f00:1", "::10.0.0.1", "fe80::1",
    "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "3fff::1", "100::1",
    "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::8efa:4a0a",
    "2002:7f00:1::1", "2002:a00:1::1", "2002:8efa:4a0a::1", "2001:0:7f00:1::1", "2001::1", "2a00:1450::1%1", "5f00::1",
    "", "localhost", "fcm.googleapis.com", "142.250.74.10 ", "0x7f.0.0.1", "127.1", "2130706433", "0177.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert is_public(address)
    assert guarded(lambda host, port: [address], SERVICES)("fcm.googleapis.com", 443) == (address,)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_blocked(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(BlockedAddress, match="not public"):
        guarded(lambda host, port: [address], SERVICES)("fcm.googleapis.com", 443)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_name_with_public_and_private_addresses_is_blocked(order: tuple[int, int]) -> None:
    addresses = ["142.250.74.10", "10.0.0.1"]
    with pytest.raises(BlockedAddress):
        guarded(lambda host, port: [addresses[index] for index in order], SERVICES)("fcm.googleapis.com", 443)


def test_name_is_checked_at_each_connection() -> None:
    """The caller connects to the checked addresses, so DNS rebinding has no effect."""
    answers = iter([["142.250.74.10"], ["127.0.0.1"]])
    resolve = guarded(lambda host, port: next(answers), SERVICES)
    assert resolve("fcm.googleapis.com", 443) == ("142.250.74.10",)
    with pytest.raises(BlockedAddress):
        resolve("fcm.googleapis.com", 443)


def test_returned_addresses_are_a_copy() -> None:
    answer = ["142.250.74.10"]
    addresses = guarded(lambda host, port: answer, SERVICES)("fcm.googleapis.com", 443)
    answer[0] = "127.0.0.1"
    assert addresses == ("142.250.74.10",)


def test_unresolved_name_raises_os_error() -> None:
    def unresolved(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with pytest.raises(OSError, match="no such name"):
        guarded(unresolved, SERVICES)("fcm.googleapis.com", 443)
    with pytest.raises(OSError, match="no address"):
        guarded(lambda host, port: [], SERVICES)("fcm.googleapis.com", 443)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_localhost_is_allowed_in_development_only(address: str) -> None:
    assert guarded(lambda host, port: [address], DEVELOPMENT)("localhost", 8080) == (address,)
    with pytest.raises(BlockedAddress):
        guarded(lambda host, port: [address], SERVICES)("localhost", 8080)


@pytest.mark.parametrize("address", ["142.250.74.10", "10.0.0.1", "nonsense"])
def test_localhost_must_resolve_to_loopback(address: str) -> None:
    with pytest.raises(BlockedAddress, match="not this machine"):
        guarded(lambda host, port: [address], DEVELOPMENT)("localhost", 8080)


def test_other_names_must_not_resolve_to_loopback() -> None:
    with pytest.raises(BlockedAddress, match="not public"):
        guarded(lambda host, port: ["127.0.0.1"], DEVELOPMENT)("fcm.googleapis.com", 443)


def test_blocked_is_an_os_error() -> None:
    assert issubclass(BlockedAddress, OSError)
