"""A reader of the log in a process of its own, so that it can be killed, stopped and woken like any other process."""

import json
import os
import signal
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from notifier.adapters.kafka import Access, KafkaLog
from notifier.domain.errors import LogUnavailable
from notifier.ports.log import Logged, Record

ENDS_WITHIN = 10.0


@dataclass(slots=True)
class Member:
    """A Consumer."""

    process: "subprocess.Popen[str]"
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
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait(ENDS_WITHIN)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()

    def _asked(self, *call: object) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "away" in answer:
            raise LogUnavailable(answer["away"])
        assert "failed" not in answer, answer
        return answer["said"]


def member(access: Access, client: str, stream: str, group: str, owner: str) -> Member:
    words = [json.dumps([access.servers, access.prefix, access.instance, access.lease.total_seconds()]), client]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.contracts.member", *words, stream, group, owner],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Member(process, access.group(stream, group))


def answer(written: str, client: str, stream: str, group: str, owner: str) -> None:
    servers, prefix, instance, lease = json.loads(written)
    access = Access(servers=servers, prefix=prefix, instance=instance, lease=timedelta(seconds=lease))
    consumer = KafkaLog(access, client).subscribe(stream, group, owner)
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


if __name__ == "__main__":
    answer(*sys.argv[1:])
