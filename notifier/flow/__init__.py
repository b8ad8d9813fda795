"""Processing stages, from event intake to inbox pages.

In data order: gateway, router, coordinator, dispatcher, slice workers (delivery, push), inbox. The reconciler and the
monitor run beside them. A stage is a dataclass of ports with `__call__`; hosts run the loops.
"""
