"""A task's request whose acknowledgement fails aloud, so that the worker connects anew."""

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
