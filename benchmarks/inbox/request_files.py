"""Files of requests, per group of users and per case with responses of the product."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from benchmarks.inbox.http_requests_and_load_loops import PAGE, UNREAD, get, read_requests, write_requests
from benchmarks.inbox.population import Population
from notifier.api.auth.authenticators import InstallationKeys, installation_keys, issue_token
from notifier.config import Settings

LIFETIME = timedelta(hours=3)
"""Lifetime of a token: longer than any benchmark takes."""
USERS_60 = 60

Requests = Callable[[], Iterable[bytes]]


@dataclass(kw_only=True)
class PopulationRequests:
    folder: Path
    population: Population
    settings: Settings
    now: datetime
    _written: dict[str, Path] = field(default_factory=dict)
    _tokens: dict[str, Sequence[str]] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """Return the file, and write it at first use. Raises KeyError for an unknown name."""
        if name not in self._written:
            self.write(name, self._known[name]())
        return self._written[name]

    def write(self, name: str, requests: Iterable[bytes]) -> None:
        """Write a file whose requests depend on the product's responses. It replaces an older file of that name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}-{len(list(self.folder.iterdir()))}"
        write_requests(path, requests)
        self._written[name] = path

    def count(self, name: str) -> int:
        return len(read_requests(self.path(name)))

    def tokens(self, group: str) -> Sequence[str]:
        if group not in self._tokens:
            users = self.population.users(group)
            self._tokens[group] = [issue_token(self._keys, user, self.now, LIFETIME) for user in users]
        return self._tokens[group]

    def token(self, group: str, number: int) -> str:
        return self.tokens(group)[number]

    @cached_property
    def _keys(self) -> InstallationKeys:
        return installation_keys(self.settings)

    @cached_property
    def _known(self) -> Mapping[str, Requests]:
        of_groups: dict[str, Requests] = {group.name: self._pages(group.name) for group in self.population.groups}
        return of_groups | {
            "users_60": lambda: [get(PAGE, token) for token in self.tokens("warm")[:USERS_60]],
            "unread": lambda: [get(UNREAD, token) for token in self.tokens("warm")],
            # The same headers as in the product's requests: parsing them is part of the server's work.
            "bare_page": lambda: [get("/bare/page", token) for token in self.tokens("warm")],
            "bare_unread": lambda: [get("/bare/unread", token) for token in self.tokens("warm")],
            "redis_by_hand": lambda: self._by_number("redis"),
            "stream_framework": lambda: self._by_number("feed"),
            "everybody": lambda: [
                get(PAGE, token) for group in self.population.groups for token in self.tokens(group.name)
            ],
        }

    def _pages(self, group: str) -> Requests:
        return lambda: [get(PAGE, token) for token in self.tokens(group)]

    def _by_number(self, folder: str) -> list[bytes]:
        """Make requests with the user's number in the group instead of a checked token, for the baselines."""
        return [get(f"/{folder}/{number}", token) for number, token in enumerate(self.tokens("warm"))]
