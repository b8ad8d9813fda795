"""Celery as the task queues: one application and one database a pool."""

from notifier.adapters.celery.application import application, on_redis
from notifier.adapters.celery.queue import CeleryQueue

__all__ = ["CeleryQueue", "application", "on_redis"]
