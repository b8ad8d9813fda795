"""Processing stages, from event intake to inbox pages.

In data order: gateway, router, coordinator, dispatcher, slice workers (delivery, push), inbox. The reconciler and the
monitor run beside them. Most stages are dataclasses of ports with `__call__`; hosts run the loops.
"""
