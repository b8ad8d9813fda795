"""A log consumer in its own process, which tests can kill, suspend and resume."""

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
from notifier.ports.event_log_and_dead_letters import Logged, Record

ENDS_WITHIN = 10.0
"""Seconds, on a busy machine."""


@dataclass(slots=True)
class ConsumerProcess:
    """A consumer of the log, controlled through pipes."""

    process: Process
    requests: TextIO
    responses: TextIO
    group: str
    """Name of the group at the broker."""

    def poll(self, limit: int, wait: timedelta) -> Sequence[Logged]:
        records = self._request("poll", limit, wait.total_seconds())
        return [
            Logged(partition=partition, offset=offset, record=Record(stream=stream, key=key, value=b64decode(value)))
            for partition, offset, stream, key, value in records
        ]

    def commit(self, positions: Mapping[str, int]) -> None:
        self._request("commit", dict(positions))

    def still_owns_polled_records(self) -> bool:
        return bool(self._request("still_owns_polled_records"))

    def lag(self) -> int:
        return int(self._request("lag"))

    def close(self) -> None:
        self._request("close")
        self.end()

    def suspend(self) -> None:
        """Suspend the process: it neither polls nor sends heartbeats until it is resumed."""
        self.process.suspend()

    def resume(self) -> None:
        self.process.resume()

    def end(self) -> None:
        with suppress(NoSuchProcess):  # already closed
            self.process.kill()
            self.process.wait(ENDS_WITHIN)
        for pipe in (self.requests, self.responses):
            pipe.close()

    def _request(self, *call: object) -> Any:
        self.requests.write(json.dumps(call) + "\n")
        self.requests.flush()
        response = json.loads(self.responses.readline())
        if "unavailable" in response:
            raise LogUnavailable(response["unavailable"])
        assert "failed" not in response, response
        return response["result"]


def serve_consumer(access_json: str, stream: str, group: str, owner: str) -> None:
    servers, prefix, instance, lease = json.loads(access_json)
    access = Access(servers=servers, prefix=prefix, instance=instance, lease=timedelta(seconds=lease))
    consumer = KafkaLog(access).subscribe(stream, group, owner)
    for line in sys.stdin:
        name, *args = json.loads(line)
        try:
            if name == "poll":
                records = consumer.poll(args[0], timedelta(seconds=args[1]))
                result: object = [
                    (
                        logged.partition,
                        logged.offset,
                        logged.record.stream,
                        logged.record.key,
                        b64encode(logged.record.value).decode(),
                    )
                    for logged in records
                ]
            else:
                result = getattr(consumer, name)(*args)
            print(json.dumps({"result": result}), flush=True)
        except LogUnavailable as error:
            print(json.dumps({"unavailable": str(error)}), flush=True)
        except Exception as error:
            print(json.dumps({"failed": repr(error)}), flush=True)
    os._exit(0)
