"""Celery as the task queues: one application and one database a pool."""

from notifier.adapters.celery.application import application, on_redis
from notifier.adapters.celery.inspection import knock
from notifier.adapters.celery.queue import CeleryQueue

__all__ = ["CeleryQueue", "application", "knock", "on_redis"]
