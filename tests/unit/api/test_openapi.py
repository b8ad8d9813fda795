"""The description of the API is made by the first who asks for it, and by nobody else."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from notifier.api.schemas.openapi import Description

ASKERS = 4


def test_it_is_made_once_however_many_ask_at_once() -> None:
    made, together = list[dict[str, Any]](), Barrier(ASKERS)

    def make() -> dict[str, Any]:
        made.append({"openapi": "3.1.0"})
        return made[-1]

    description = Description(generate=make)
    assert made == []

    def ask(_: int) -> dict[str, Any]:
        together.wait(10)
        return description.document()

    with ThreadPoolExecutor(ASKERS) as threads:
        told = [*threads.map(ask, range(ASKERS))]
    assert len(made) == 1
    assert all(one is made[0] for one in told)
