"""What the verbs tell of the accounts of a running service."""

import json
from typing import Any

from tests.cli.conftest import Notifier


def vips_of(notifier: Notifier, data: str) -> set[str]:
    return set(json.loads(notifier("vip", "list", "--json", "--data", data).output)["accounts"])


def why_of(notifier: Notifier, data: str, user: str) -> str:
    return str(json.loads(notifier("explain", "mention:nova#1", user, "--json", "--data", data).output)["rule"])


def followers_of(notifier: Notifier, data: str) -> int:
    return int(audience_of(notifier, data, "nova")["followers"])


def audience_of(notifier: Notifier, data: str, of: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(notifier("audience", of, "--json", "--data", data).output)
    return found


def muted_of(audience: dict[str, Any]) -> int:
    return int(audience["suppressed"].get("muted", 0))
