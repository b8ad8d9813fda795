"""The Lua scripts: read from their files, called by digest, sent whole only to a server that has forgotten them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from typing import Any

import redis
from redis.exceptions import NoScriptError

Argument = str | bytes | int | float


@dataclass(frozen=True, slots=True)
class Script:
    text: str

    @classmethod
    def named(cls, name: str) -> "Script":
        return cls((files("notifier.adapters.redis") / "lua" / f"{name}.lua").read_text(encoding="utf-8"))

    @property
    def digest(self) -> str:
        return sha1(self.text.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, client: redis.Redis, key: str, *arguments: Argument) -> Any:
        return _known(client, self, lambda: client.evalsha(self.digest, 1, key, *arguments))

    def each(self, client: redis.Redis, calls: Sequence[tuple[str, Sequence[Argument]]]) -> list[Any]:
        """The script once for each key with its arguments, in one round trip; it must bear to be run twice."""

        def send() -> list[Any]:
            with client.pipeline(transaction=False) as pipe:
                for key, arguments in calls:
                    pipe.evalsha(self.digest, 1, key, *arguments)
                return list(pipe.execute())

        return list(_known(client, self, send)) if calls else []


def _known(client: redis.Redis, script: Script, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except NoScriptError:
        client.script_load(script.text)
        return call()
