"""A reader of the log in a process of its own, so that it can be killed, stopped and woken like any other process."""

import json
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TextIO

from psutil import NoSuchProcess, Process

from notifier.adapters.kafka import Access, KafkaLog
from notifier.domain.errors import LogUnavailable
from notifier.ports.event_log import Logged, Record

ENDS_WITHIN = 10.0


@dataclass(slots=True)
class Member:
    """A Consumer."""

    process: Process
    asks: TextIO
    hears: TextIO
    group: str
    """As the broker knows it."""

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        found = self._asked("poll", limit, wait.total_seconds())
        return [
            Logged(partition=partition, offset=offset, record=Record(stream=stream, key=key, value=b64decode(value)))
            for partition, offset, stream, key, value in found
        ]

    def commit(self, positions: Mapping[str, int]) -> None:
        self._asked("commit", dict(positions))

    def holds(self) -> bool:
        return bool(self._asked("holds"))

    def lag(self) -> int:
        return int(self._asked("lag"))

    def close(self) -> None:
        self._asked("close")
        self.end()

    def stop(self) -> None:
        """It neither polls nor tells anybody that it lives, until it is woken."""
        self.process.suspend()

    def wake(self) -> None:
        self.process.resume()

    def end(self) -> None:
        with suppress(NoSuchProcess):  # it was closed before
            self.process.kill()
            self.process.wait(ENDS_WITHIN)
        for pipe in (self.asks, self.hears):
            pipe.close()

    def _asked(self, *call: object) -> Any:
        self.asks.write(json.dumps(call) + "\n")
        self.asks.flush()
        answer = json.loads(self.hears.readline())
        if "away" in answer:
            raise LogUnavailable(answer["away"])
        assert "failed" not in answer, answer
        return answer["said"]


def answer(written: str, stream: str, group: str, owner: str) -> None:
    servers, prefix, instance, lease = json.loads(written)
    access = Access(servers=servers, prefix=prefix, instance=instance, lease=timedelta(seconds=lease))
    consumer = KafkaLog(access).subscribe(stream, group, owner)
    for line in sys.stdin:
        name, *given = json.loads(line)
        try:
            if name == "poll":
                found = consumer.poll(given[0], timedelta(seconds=given[1]))
                said: object = [
                    (one.partition, one.offset, one.record.stream, one.record.key, b64encode(one.record.value).decode())
                    for one in found
                ]
            else:
                said = getattr(consumer, name)(*given)
            print(json.dumps({"said": said}), flush=True)
        except LogUnavailable as error:
            print(json.dumps({"away": str(error)}), flush=True)
        except Exception as error:
            print(json.dumps({"failed": repr(error)}), flush=True)
    os._exit(0)
