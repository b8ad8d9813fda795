"""A task's request whose acknowledgement fails aloud, so that the worker connects anew."""

from typing import ClassVar

from celery.worker.consumer import Consumer
from celery.worker.request import Request


class Acknowledging(Request):  # type: ignore[misc]  # Celery has no types
    """Celery only logs an acknowledgement that the broker didn't take, and goes on counting the task as held.

    At a prefetch of one that leaves the worker deaf for ever, idle and connected to nothing: a broker that died between
    a task and its acknowledgement did that in three of ten tries.
    """

    acknowledged: bool

    def acknowledge(self) -> None:
        if not self.acknowledged:
            self._message.ack()
            self.acknowledged = True


# Celery's consumer without the part that would schedule tasks by itself, for which RabbitMQ gets dozens of queues.


class Consuming(Consumer):  # type: ignore[misc]  # Celery has no types
    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]  # as above
        default_steps: ClassVar = [step for step in Consumer.Blueprint.default_steps if "delayed_delivery" not in step]
