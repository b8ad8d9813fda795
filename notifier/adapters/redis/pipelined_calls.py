"""Sends many Redis calls together, and deletes keys of the wrong type."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha1
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from notifier.adapters.redis.keys_checksums_lua_scripts import KEY_TYPES, GarbageCount, LuaScript, kind_of, unwrap, wrap
from notifier.adapters.redis.server_client import AsyncClient, RedisClient

Argument = str | bytes | int | float

MAX_REPEATS = 2
"""Maximum repeats of a call: one if the server has forgotten the script, one for a key of the wrong type."""

DISCARD_SCRIPT = LuaScript.load("discard_garbage")


@dataclass(frozen=True, slots=True)
class Command:
    """A command on one key or channel, with the name of a method of redis-py's pipeline."""

    name: str
    key: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def queue(self, pipe: Any) -> None:
        getattr(pipe, self.name)(self.key, *self.arguments, **self.options)

    def command_words(self) -> tuple[Any, ...]:
        """Return the name and the arguments, as a SharedConnection sends them. Only `hmget` is supported."""
        assert self.name == "hmget", "other commands differ from their method names, or have options"
        return self.name, self.key, *self.arguments[0]

    def interpret(self, response: Any, garbage: GarbageCount) -> Any:
        return response


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script with the key and the arguments of one call."""

    script: LuaScript
    key: str
    arguments: tuple[Argument, ...] = ()
    send_text: bool = False
    """Send the text of the script instead of its digest."""

    def queue(self, pipe: Any) -> None:
        if self.send_text:
            pipe.eval(self.script.text, 1, self.key, *self.arguments)
        else:
            pipe.evalsha(self.script.digest, 1, self.key, *self.arguments)

    def command_words(self) -> tuple[Any, ...]:
        name, script = ("eval", self.script.text) if self.send_text else ("evalsha", self.script.digest)
        return name, script, 1, self.key, *self.arguments

    def interpret(self, response: Any, garbage: GarbageCount) -> Any:
        garbage_count, *answers = response
        garbage.add(kind_of(self.key), garbage_count)
        return answers[0] if answers else None


Call = Command | ScriptCall


def discard_call(key: str, garbage_by_field: Mapping[str, bytes] | None = None) -> ScriptCall:
    """Return a call that deletes the key if the type is wrong, or if the key still holds this garbage.

    For a key that holds a string, the field is ''.
    """
    digests = [
        argument
        for field, value in (garbage_by_field or {}).items()
        for argument in (field, sha1(value, usedforsecurity=False).hexdigest())
    ]
    return ScriptCall(DISCARD_SCRIPT, key, (KEY_TYPES[kind_of(key)], *digests), send_text=True)


def run_calls(client: RedisClient, calls: Sequence[Call]) -> list[Any]:
    """Send the calls together and return their answers. Raises CacheUnavailable.

    A key of the wrong type is deleted, and its call is repeated. If one call fails, the others may still have taken
    effect.
    """
    rounds = _rounds(calls, client.garbage)
    with client.guarded():
        try:
            batch = next(rounds)
            while True:
                with client.pipeline(transaction=False) as pipe:
                    for call in batch:
                        call.queue(pipe)
                    answers = pipe.execute(raise_on_error=False)
                batch = rounds.send(answers)
        except StopIteration as end:
            results: list[Any] = end.value
            return results


async def run_calls_async(client: AsyncClient, calls: Sequence[Call]) -> list[Any]:
    """Do the same as `run_calls`, asynchronously. Without a cluster, concurrent callers share round trips."""
    rounds = _rounds(calls, client.garbage)
    with client.guarded():
        try:
            batch = next(rounds)
            while True:
                batch = rounds.send(await _send(client, batch))
        except StopIteration as end:
            results: list[Any] = end.value
            return results


async def _send(client: AsyncClient, batch: Sequence[Call]) -> list[Any]:
    if client.shared_connection is not None:
        return await client.shared_connection.execute([call.command_words() for call in batch])
    async with client.pipeline(transaction=False) as pipe:
        for call in batch:
            call.queue(pipe)
        answers: list[Any] = await pipe.execute(raise_on_error=False)
        return answers


def _rounds(calls: Sequence[Call], garbage: GarbageCount) -> Generator[Sequence[Call], list[Any], list[Any]]:
    """Yield each batch to send, receive its answers, and return the final answers to the calls."""
    sent, answers = list(calls), (yield calls) if calls else []
    for _ in range(MAX_REPEATS):
        replacements_by_index = {
            index: replacements
            for index, call in enumerate(sent)
            if (replacements := _repair_calls(call, answers[index]))
        }
        if not replacements_by_index:
            break
        repeated_answers = iter(
            (yield [call for replacements in replacements_by_index.values() for call in replacements])
        )
        for index, replacements in replacements_by_index.items():
            for cleanup_call in replacements[:-1]:
                cleanup_call.interpret(_raised_if_error(next(repeated_answers)), garbage)
            sent[index], answers[index] = replacements[-1], next(repeated_answers)
    return [call.interpret(_raised_if_error(answer), garbage) for call, answer in zip(sent, answers, strict=True)]


def _repair_calls(call: Call, response: Any) -> Sequence[Call]:
    """Return a clean-up if needed, and the call to repeat; nothing if no repeat is needed, or none can help."""
    if isinstance(response, NoScriptError) and isinstance(call, ScriptCall):
        return [replace(call, send_text=True)]
    # Redis 6 puts the error code of a script into the middle of the message.
    if isinstance(response, ResponseError) and "WRONGTYPE" in str(response):
        return [discard_call(call.key), call]
    return []


def _raised_if_error(response: Any) -> Any:
    if isinstance(response, Exception):
        raise response
    return response


class RedisValue:
    """One value under its own key. Thread-safe. Raises CacheUnavailable."""

    def __init__(self, client: RedisClient, key: str) -> None:
        self._client = client
        self._key = key

    def set(self, value: bytes, ttl: timedelta) -> None:
        # SET replaces a value of any type.
        run_calls(self._client, [Command("set", self._key, (wrap(self._key, value),), {"px": ttl})])

    def get(self) -> bytes | None:
        """Return the value, or None if it is absent or garbage. Garbage is deleted."""
        [stored] = run_calls(self._client, [Command("get", self._key)])
        if stored is None:
            return None
        value = unwrap(self._key, stored)
        if value is None:
            run_calls(self._client, [discard_call(self._key, {"": stored})])
        return value
