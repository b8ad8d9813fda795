"""A port belongs to one service, and its API processes share it."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from notifier.api.port import BALANCES_CONNECTIONS, free_port, is_listening, join_port, reserve_port
from notifier.domain.errors import BadSetting, PortTaken

HOST = "127.0.0.1"
SHARING = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)

on_linux = pytest.mark.skipif(not BALANCES_CONNECTIONS, reason="several processes share a port on Linux only")


@contextmanager
def listening(port: int, *options: int) -> Iterator[socket.socket]:
    """Listen as another program of the same user does, with these socket options."""
    with socket.socket() as listener:
        for option in options:
            listener.setsockopt(socket.SOL_SOCKET, option, 1)
        listener.bind((HOST, port))
        listener.listen()
        yield listener


def is_reserved(port: int) -> bool:
    try:
        with reserve_port(HOST, port):
            return False
    except PortTaken:
        return True


def test_port_zero_becomes_a_free_port() -> None:
    with reserve_port(HOST, 0) as address:
        assert address.host == HOST
        assert address.port > 0


def test_port_is_free_again_after_reservation_ends() -> None:
    with reserve_port(HOST, 0) as first:
        pass
    with reserve_port(HOST, first.port) as second:
        assert second == first


def test_second_service_is_refused_before_first_one_listens() -> None:
    with reserve_port(HOST, 0) as address:
        assert is_reserved(address.port) is BALANCES_CONNECTIONS


@pytest.mark.parametrize("options", [(), (socket.SO_REUSEADDR,), SHARING], ids=["plain", "reuseaddr", "reuseport"])
def test_port_of_listening_program_is_taken(options: tuple[int, ...]) -> None:
    port = free_port(HOST, 0)
    with listening(port, *options):
        assert is_reserved(port)


def test_second_service_is_refused_while_processes_of_first_listen() -> None:
    with reserve_port(HOST, 0) as address, listening(address.port, *SHARING):
        assert is_reserved(address.port)


@on_linux
def test_processes_of_one_service_listen_on_reserved_port_together() -> None:
    with reserve_port(HOST, 0) as address, ExitStack() as stack:
        for _ in range(3):
            assert stack.enter_context(join_port(HOST, address.port)) == address
            stack.enter_context(listening(address.port, *SHARING))
        for _ in range(4):
            stack.enter_context(socket.create_connection((HOST, address.port), timeout=5.0))


@on_linux
def test_reserved_port_refuses_connections_until_a_process_listens() -> None:
    with reserve_port(HOST, 0) as address, pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, address.port), timeout=5.0)


@pytest.mark.parametrize("options", [(), (socket.SO_REUSEADDR,)], ids=["plain", "reuseaddr"])
def test_joining_fails_on_port_of_another_program(options: tuple[int, ...]) -> None:
    port = free_port(HOST, 0)
    with listening(port, *options), pytest.raises(PortTaken, match=str(port)), join_port(HOST, port):
        pass


@on_linux
def test_connections_in_time_wait_do_not_keep_the_port() -> None:
    port = free_port(HOST, 0)
    with listening(port, socket.SO_REUSEADDR) as listener, socket.create_connection((HOST, port)) as client:
        accepted, _ = listener.accept()
        accepted.close()  # the side that closes first waits
        with suppress(OSError):
            client.recv(1)
    assert not is_reserved(port)


LISTENS = """
import socket
with socket.create_server(("127.0.0.1", 0)) as one:
    print(one.getsockname()[1], flush=True)
    input()
"""


def test_listener_of_another_process_is_not_ours() -> None:
    command = [sys.executable, "-c", LISTENS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        socket.create_connection((HOST, port), timeout=5.0).close()
        assert not is_listening(port)
        process.communicate("\n")


def test_own_listener_is_ours_once_it_listens() -> None:
    with reserve_port(HOST, 0) as address:
        assert not is_listening(address.port)
        with listening(address.port, *SHARING):
            assert is_listening(address.port)
        assert not is_listening(address.port)


def test_same_port_on_another_address_is_free() -> None:
    with reserve_port(HOST, 0) as address, reserve_port("127.0.0.2", address.port) as second:
        assert second.port == address.port


def test_unknown_host_is_a_bad_setting() -> None:
    with pytest.raises(BadSetting, match="nowhere"), reserve_port("nowhere.invalid", 0):
        pass


def test_foreign_address_is_a_bad_setting() -> None:
    with pytest.raises(BadSetting, match=r"192\.0\.2\.1"), reserve_port("192.0.2.1", 0):
        pass
