"""Processing stages, from event intake to inbox pages.

In data order: gateway, router, coordinator, publisher, dispatcher, slice workers (delivery, push), inbox. The indexers,
the reconciler and the monitor run beside them. Most stages are dataclasses of ports with `__call__`. Their callers are
in `consumer_loop.py`, `workers/`, `cli/` and `api/`.
"""
