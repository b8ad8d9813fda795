"""Celery task queues: one application for each pool."""
