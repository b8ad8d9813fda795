"""OpenAPI description: it is built once, on the first request."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from notifier.api.schemas.openapi import OpenApiDocument

CALLERS = 4


def test_description_is_built_once_for_concurrent_callers() -> None:
    built, together = list[dict[str, Any]](), Barrier(CALLERS)

    def build() -> dict[str, Any]:
        built.append({"openapi": "3.1.0"})
        return built[-1]

    description = OpenApiDocument(generate=build)
    assert built == []

    def ask(_: int) -> dict[str, Any]:
        together.wait(10)
        return description.content()

    with ThreadPoolExecutor(CALLERS) as threads:
        documents = [*threads.map(ask, range(CALLERS))]
    assert len(built) == 1
    assert all(document is built[0] for document in documents)
