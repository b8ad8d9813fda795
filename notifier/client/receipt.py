"""Receipts: what the service answered to an event."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    ACCEPTED = "accepted"
    """It survives a crash of any process of the service."""
    DUPLICATE = "duplicate"
    """It was accepted before, perhaps by a try whose answer was lost; nothing happens twice."""
    REFUSED = "refused"
    """It will never be taken as it is."""
    ASIDE = "aside"
    """An outbox's own: the service failed at it every time. It is kept, and sent again by order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What docs/tweet-service.md tells you to do depends on `code`, which never changes; the texts may."""

    code: str
    title: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.title} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    id: str
    status: Status
    refusal: Refusal | None = None
    """Of one that wasn't taken."""

    @property
    def taken(self) -> bool:
        return self.status in (Status.ACCEPTED, Status.DUPLICATE)


def refused(id: str, refusal: Refusal) -> Receipt:
    return Receipt(id=id, status=Status.REFUSED, refusal=refusal)


def refusal_of(problem: Mapping[str, Any]) -> Refusal:
    """From problem+json. Raises KeyError when it is none of ours."""
    return Refusal(code=str(problem["code"]), title=str(problem["title"]), detail=str(problem.get("detail", "")))
