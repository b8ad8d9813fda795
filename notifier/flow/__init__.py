"""Processing stages, from event intake to inbox pages.

In data order: gateway, router, coordinator, publisher, dispatcher, slice workers (delivery, push), inbox. The indexers
and the reconciler run beside them.
"""
