"""What the doctor finds of alerts on phones: by which credentials they are sent, and whether those can be used."""

from collections.abc import Iterator

from notifier.cli.findings import Finding, Level
from notifier.config import Push
from notifier.domain.device import Platform
from notifier.domain.errors import BadSetting
from notifier.profiles.providers import CREDENTIALS, credentials


def push_findings(push: Push) -> Iterator[Finding]:
    """Reads files, and asks no provider: `notifier push test` does."""
    for platform in Platform:
        yield _finding(push, platform)


def _finding(push: Push, platform: Platform) -> Finding:
    name = f"push {platform}"
    if push.is_real(platform):
        try:
            return Finding(name=name, detail=f"With {credentials(push, platform)}.")
        except BadSetting as error:
            remedy = f"Nobody is alerted by {platform} until {CREDENTIALS[platform]} is mended."
            return Finding(name=name, level=Level.FAIL, detail=error.detail, remedy=remedy)
    if push.is_faked(platform):
        runs = f"at {push.of(platform).fake}" if push.of(platform).fake else "of the next `notifier up`"
        return Finding(name=name, detail=f"A fake {runs} takes its alerts; {CREDENTIALS[platform]} sends them.")
    remedy = f"Set {CREDENTIALS[platform]}, or let a fake take them."
    return Finding(name=name, level=Level.WARN, detail="No credentials, and no fake.", remedy=remedy)
