"""The `api` role: one process that serves the application over HTTP."""

import logging
import os
from collections.abc import Callable
from typing import NoReturn

from notifier.api.app import create
from notifier.api.auth.authenticators import INSECURE_WARNING
from notifier.api.auth.service_and_installation_keys import installation_keys
from notifier.api.background.garbage_collection import tune_garbage_collector
from notifier.api.http_server import exit_now, listen
from notifier.config import Settings
from notifier.metrics import Metrics
from notifier.profiles import choose
from notifier.wiring.shared_parts import build_system

LOGGER = logging.getLogger("notifier.api")


def serve(
    settings: Settings,
    on_ready: Callable[[int], None],
    beat: Callable[[], None] = lambda: None,
    *,
    port_is_reserved: bool = False,
) -> NoReturn:
    """Serve until SIGTERM or SIGINT, then exit the process. Call from the main thread.

    Raises BadSetting, and the errors of `listen` and of the profile.
    """
    keys = installation_keys(settings)
    if settings.insecure_dev:
        LOGGER.warning(INSECURE_WARNING)
    profile = choose(settings)
    try:
        profile.warm()
        metrics = Metrics()
        ports = profile.ports(metrics)
        owner = f"api-{os.getpid()}-{ports.nonces.new()}"
        system = build_system(ports=ports, settings=settings, metrics=metrics, owner=owner)
        app = create(system, profile.read_ports(metrics), keys, flush_redis=profile.flush_redis)
        tune_garbage_collector()
        listen(app, settings.host, settings.port, on_ready, beat, port_is_reserved=port_is_reserved)
    finally:
        profile.close()
    exit_now()
