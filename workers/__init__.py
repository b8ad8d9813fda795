"""Worker pools and the Celery hosts that run them."""
