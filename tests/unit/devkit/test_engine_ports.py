"""Ports for engines: one is never given to two engines of a process."""

import pytest

from notifier.devkit.engines import engine_process
from notifier.devkit.engines.engine_process import PORTS, free_port


def test_port_is_returned_once_while_its_engine_does_not_listen_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter((7, 7, 8))
    monkeypatch.setattr(engine_process, "RETURNED_PORTS", set())
    monkeypatch.setattr("secrets.randbelow", lambda _: next(numbers))
    assert [free_port(), free_port()] == [PORTS.start + 7, PORTS.start + 8]
