"""Settings with their defaults and meanings. Only this package reads the process environment."""

from notifier.config.auth import Issuer
from notifier.config.cluster import BrokerSettings, CassandraSettings, KafkaSettings
from notifier.config.field import PREFIX, Named, SettingRule, named, plain, refusal, variable, without_password
from notifier.config.loader import (
    OF_PUSH,
    RUNNING,
    environment_with,
    environment_without_settings,
    has_display,
    replace_environment,
    set_in_environment,
)
from notifier.config.push import PushSettings
from notifier.config.sections import InboxLimits, RequestLimits
from notifier.config.settings import (
    CELEBRITY_THRESHOLD,
    HYSTERESIS,
    MOST_API_WORKERS,
    MOST_STREAMS,
    PROFILES,
    SHORTEST_SECRET,
    Settings,
)

__all__ = [
    "CELEBRITY_THRESHOLD",
    "HYSTERESIS",
    "MOST_API_WORKERS",
    "MOST_STREAMS",
    "OF_PUSH",
    "PREFIX",
    "PROFILES",
    "RUNNING",
    "SHORTEST_SECRET",
    "BrokerSettings",
    "CassandraSettings",
    "InboxLimits",
    "Issuer",
    "KafkaSettings",
    "Named",
    "PushSettings",
    "RequestLimits",
    "SettingRule",
    "Settings",
    "environment_with",
    "environment_without_settings",
    "has_display",
    "named",
    "plain",
    "refusal",
    "replace_environment",
    "set_in_environment",
    "variable",
    "without_password",
]
