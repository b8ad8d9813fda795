"""Celery task queues: one application for each pool."""

from notifier.adapters.celery.app import celery_app, redis_broker_urls
from notifier.adapters.celery.queue import CeleryQueue, check_connection

__all__ = ["CeleryQueue", "celery_app", "check_connection", "redis_broker_urls"]
