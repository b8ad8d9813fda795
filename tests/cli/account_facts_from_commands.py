"""Facts about the accounts of a running service, from the output of commands."""

import json
from typing import Any

from tests.cli.conftest import Notifier


def vips_of(notifier: Notifier, data: str) -> set[str]:
    return set(json.loads(notifier("vip", "list", "--json", "--data", data).output)["accounts"])


def hiding_rule_of(notifier: Notifier, data: str, user: str) -> str:
    return str(json.loads(notifier("explain", "mention:nova#1", user, "--json", "--data", data).output)["rule"])


def followers_of(notifier: Notifier, data: str) -> int:
    return int(audience_of(notifier, data, "nova")["followers"])


def audience_of(notifier: Notifier, data: str, account: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(notifier("audience", account, "--json", "--data", data).output)
    return facts


def muted_of(audience: dict[str, Any]) -> int:
    return int(audience["suppressed"].get("muted", 0))
