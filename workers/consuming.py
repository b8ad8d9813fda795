"""Celery's consumer without the part that would schedule tasks by itself, for which RabbitMQ gets dozens of queues."""

from typing import ClassVar

from celery.worker.consumer import Consumer


class Consuming(Consumer):  # type: ignore[misc]  # Celery has no types
    class Blueprint(Consumer.Blueprint):  # type: ignore[misc]  # as above
        default_steps: ClassVar = [step for step in Consumer.Blueprint.default_steps if "delayed_delivery" not in step]
