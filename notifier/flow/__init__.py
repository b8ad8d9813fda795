"""The stages, in the order of the data: gateway, router, coordinator, dispatcher, work (delivery, push), tab; and
beside them the reconciler and the monitor. A stage is a frozen record of ports with `__call__`; loops live in hosts.
"""
