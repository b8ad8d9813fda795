"""Celery as the task queues: one application and one database a pool."""

from notifier.adapters.celery.application import application, broker_url
from notifier.adapters.celery.queue import CeleryQueue

__all__ = ["CeleryQueue", "application", "broker_url"]
