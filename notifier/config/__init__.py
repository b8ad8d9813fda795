"""Settings with defaults and meanings. Only this package reads the process environment."""

from notifier.config.cluster import BrokerSettings, CassandraSettings, KafkaSettings
from notifier.config.limits import InboxLimits, RequestLimits
from notifier.config.push import PushSettings
from notifier.config.setting_field import (
    VARIABLE_PREFIX,
    SettingEntry,
    SettingRule,
    format_value,
    setting_entries,
    value_problem,
    variable,
    without_password,
)
from notifier.config.settings import (
    CELEBRITY_THRESHOLD,
    HYSTERESIS,
    MAX_API_WORKERS,
    MAX_STREAMS,
    MIN_SECRET_BYTES,
    PROFILES,
    Settings,
)
from notifier.config.settings_and_environment import (
    PROFILE_FILE,
    PUSH_FILE,
    environment_with,
    environment_without_settings,
    has_display,
    replace_environment,
    set_in_environment,
)
from notifier.config.token_issuer import Issuer

__all__ = [
    "CELEBRITY_THRESHOLD",
    "HYSTERESIS",
    "MAX_API_WORKERS",
    "MAX_STREAMS",
    "MIN_SECRET_BYTES",
    "PROFILES",
    "PROFILE_FILE",
    "PUSH_FILE",
    "VARIABLE_PREFIX",
    "BrokerSettings",
    "CassandraSettings",
    "InboxLimits",
    "Issuer",
    "KafkaSettings",
    "PushSettings",
    "RequestLimits",
    "SettingEntry",
    "SettingRule",
    "Settings",
    "environment_with",
    "environment_without_settings",
    "format_value",
    "has_display",
    "replace_environment",
    "set_in_environment",
    "setting_entries",
    "value_problem",
    "variable",
    "without_password",
]
