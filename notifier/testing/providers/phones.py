"""Phones, as a provider leaves them: what each shows, and how often it rang."""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

MOST = 100_000
"""Phones that are remembered, the last ones: a bench sends to a million, and its memory is measured."""


@dataclass(slots=True)
class Phone:
    shows: dict[str, str] = field(default_factory=dict)
    """Texts by what a later one replaces them by, oldest first."""
    rang: int = 0
    ids: list[str] = field(default_factory=list)
    """Of everything that arrived, in order."""

    def ring(self, *, place: str, text: str, id: str) -> bool:
        """Whether it is the first time that this id arrives: no provider looks at that, and the phone rings again."""
        new = id not in self.ids
        self.shows[place] = text
        self.rang += 1
        self.ids.append(id)
        return new


class Heard(Protocol):
    """Told of whatever arrives at a phone."""

    def __call__(self, to: str, *, place: str, text: str, id: str) -> None: ...


def nobody(to: str, *, place: str, text: str, id: str) -> None:
    """Listens."""


@dataclass(slots=True)
class Phones:
    by_token: "OrderedDict[str, Phone]" = field(default_factory=OrderedDict)
    rang: int = 0
    duplicates: int = 0
    """Of one id at one phone, beyond the first."""
    heard: Heard = nobody

    def __getitem__(self, token: str) -> Phone:
        """One that nothing arrived at yet is empty, and not remembered."""
        return self.by_token.get(token) or Phone()

    def ring(self, token: str, *, place: str, text: str, id: str) -> None:
        phone = self.by_token.setdefault(token, Phone())
        if len(self.by_token) > MOST:
            self.by_token.popitem(last=False)
        self.heard(token, place=place, text=text, id=id)  # first: where it can't be told, the alert isn't taken
        self.rang += 1
        self.duplicates += not phone.ring(place=place, text=text, id=id)
