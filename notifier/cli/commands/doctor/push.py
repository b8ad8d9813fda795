"""What the doctor finds of alerts on phones: by which credentials they are sent, and whether those can be used."""

import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from notifier.cli.commands.doctor.machine import Finding, Level
from notifier.config import Push, variable
from notifier.domain.errors import BadSetting
from notifier.domain.ids import Platform
from notifier.profiles.push_providers import CREDENTIALS, credentials, require_credentials

CALLED: Mapping[Platform, str] = {Platform.APNS: "apns", Platform.FCM: "fcm", Platform.WEB: "webpush"}
"""Verbs of `notifier fake`."""


def push_findings(push: Push) -> Iterator[Finding]:
    """Reads files, and asks no provider: `notifier push test` does."""
    for platform in Platform:
        try:
            require_credentials(push, [platform])
            yield _finding(push, platform)
        except BadSetting as error:
            remedy = f"Nobody is alerted by {platform} until that is mended."
            yield Finding(name=f"push {platform}", level=Level.FAIL, detail=error.detail, remedy=remedy)


def _finding(push: Push, platform: Platform) -> Finding:
    """Raises BadSetting."""
    name, sends = f"push {platform}", f"{CREDENTIALS[platform]} sends them."
    if push.is_real(platform):
        return _real(push, platform, f"With {credentials(push, platform)}.")
    fake = push.of(platform).fake
    if push.is_faked(platform) and fake and not _listens(fake):
        remedy = f"Run it (`notifier fake {CALLED[platform]}`), or take {variable('push', platform, 'fake')} away."
        return Finding(name=name, level=Level.WARN, detail=f"No fake listens at {fake}.", remedy=remedy)
    if push.is_faked(platform):
        runs = f"at {fake}" if fake else "of the next `notifier up`"
        return Finding(name=name, detail=f"A fake {runs} takes its alerts; {sends}")
    remedy = f"Set {CREDENTIALS[platform]}, or let a fake take them."
    return Finding(name=name, level=Level.WARN, detail="No credentials, and no fake.", remedy=remedy)


def _real(push: Push, platform: Platform, detail: str) -> Finding:
    if platform is Platform.APNS and not push.apns.topics:
        # Apple answers for another team's app as for a wrong key, and a device may say any.
        detail = f"{detail} Devices of any app may register, and one of another team's stops everybody's alerts."
        remedy = f"Name your apps: {variable('push', platform, 'topics')}."
        return Finding(name=f"push {platform}", level=Level.WARN, detail=detail, remedy=remedy)
    return Finding(name=f"push {platform}", detail=detail)


def _listens(origin: str) -> bool:
    """It is on this machine."""
    at = urlsplit(origin)
    try:
        with socket.create_connection((at.hostname or "", at.port or {"http": 80}.get(at.scheme, 443)), timeout=1.0):
            return True
    except OSError:
        return False
