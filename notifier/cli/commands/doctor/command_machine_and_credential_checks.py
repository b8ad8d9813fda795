"""Command `notifier doctor`: checks this machine and the data folder, and suggests remedies."""

import platform
import shutil
import socket
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.data_folder_setup import check_writable
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import Check, console, envelope, grid, is_terminal, print_lines, styled
from notifier.config import Issuer, PushSettings, Settings, variable
from notifier.domain.errors import BadSetting, IssuerUnavailable, Unwritable
from notifier.domain.ids import Platform

# Checks of the machine.

MIN_PYTHON = (3, 11)
MIN_SQLITE = (3, 38, 0)
"""First version with built-in JSON functions. RETURNING, which the stores also need, is older."""
LOW_DISK_BYTES, MIN_DISK_BYTES = 2 << 30, 128 << 20
"""Free disk space in bytes: below the first number the check warns, and below the second it fails.

2 GiB are enough for a day with little bulk delivery, 128 MiB for a restart.
"""


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """Result of one check."""

    name: str
    level: Level = Level.OK
    detail: str
    remedy: str = ""
    value: float | int | str | None = None
    limit: float | int | str | None = None
    unit: str = ""

    @property
    def check(self) -> Check:
        """This finding as an item of `--json`. A warning counts as ok, because the service can run."""
        return Check(
            name=self.name,
            ok=self.level is not Level.FAIL,
            value=self.value,
            limit=self.limit,
            unit=self.unit,
            detail=" ".join(filter(None, ("warning:" if self.level is Level.WARN else "", self.detail, self.remedy))),
        )


def machine_findings(data: Path, profile: str) -> Iterator[DoctorFinding]:
    yield python_finding(sys.version_info[:2])
    if profile == "embedded":
        yield sqlite_finding(sqlite3.sqlite_version_info)
    yield folder_finding(data)
    if data.is_dir():
        yield disk_finding(shutil.disk_usage(data).free)


def python_finding(version: tuple[int, int]) -> DoctorFinding:
    is_old = version < MIN_PYTHON
    return DoctorFinding(
        name="python",
        level=Level.FAIL if is_old else Level.OK,
        detail=f"{platform.python_version()}.",
        remedy="Use Python 3.11 or newer." if is_old else "",
        value=platform.python_version(),
        limit="3.11",
    )


def sqlite_finding(version: tuple[int, ...]) -> DoctorFinding:
    is_old = version < MIN_SQLITE
    return DoctorFinding(
        name="sqlite",
        level=Level.FAIL if is_old else Level.OK,
        detail=f"{'.'.join(map(str, version))}.",
        remedy="Use a Python with SQLite 3.38 or newer." if is_old else "",
        value=".".join(map(str, version)),
        limit="3.38.0",
    )


def folder_finding(data: Path) -> DoctorFinding:
    if not data.is_dir():
        remedy = "`notifier up` or `notifier migrate` creates it; --data selects another."
        return DoctorFinding(name="folder", level=Level.FAIL, detail=f"The folder {data} doesn't exist.", remedy=remedy)
    try:
        check_writable(data)
    except Unwritable as error:
        remedy = "Grant this user write permission, or free disk space."
        return DoctorFinding(name="folder", level=Level.FAIL, detail=str(error), remedy=remedy)
    return DoctorFinding(name="folder", detail=f"{data} is writable.", value=str(data))


def disk_finding(free_bytes: int) -> DoctorFinding:
    level = Level.OK
    if free_bytes < LOW_DISK_BYTES:
        level = Level.FAIL if free_bytes < MIN_DISK_BYTES else Level.WARN
    remedy = "Free disk space: on a full disk writes are refused, and only reads work." if level is not Level.OK else ""
    return DoctorFinding(
        name="disk",
        level=level,
        detail=f"{free_bytes / (1 << 30):.1f} GiB free.",
        remedy=remedy,
        value=free_bytes,
        limit=MIN_DISK_BYTES,
        unit="bytes",
    )


# Checks of push alerts.

FAKE_COMMANDS: Mapping[Platform, str] = {Platform.APNS: "apns", Platform.FCM: "fcm", Platform.WEB: "webpush"}
"""Subcommands of `notifier fake`."""


def push_findings(push: PushSettings) -> Iterator[DoctorFinding]:
    """Check the credentials of each provider, and whether a configured fake listens. Contacts no provider."""
    from notifier.profiles.push_providers import require_credentials

    for provider in Platform:
        try:
            require_credentials(push, [provider])
            yield _provider_finding(push, provider)
        except BadSetting as error:
            remedy = f"No alerts are sent to {provider} until this is fixed."
            yield DoctorFinding(name=f"push {provider}", level=Level.FAIL, detail=error.detail, remedy=remedy)


def _provider_finding(push: PushSettings, platform: Platform) -> DoctorFinding:
    from notifier.profiles.push_providers import CREDENTIAL_SETTINGS, describe_credentials

    name, hint = f"push {platform}", f"set {CREDENTIAL_SETTINGS[platform]} to send real alerts."
    if push.uses_real_provider(platform):
        return _credentials_finding(push, platform, f"With {describe_credentials(push, platform)}.")
    fake = push.settings_for(platform).fake
    if push.uses_fake(platform) and fake and not _is_listening(fake):
        remedy = f"Start it (`notifier fake {FAKE_COMMANDS[platform]}`), or unset {variable('push', platform, 'fake')}."
        return DoctorFinding(name=name, level=Level.WARN, detail=f"No fake listens at {fake}.", remedy=remedy)
    if push.uses_fake(platform):
        fake_name = f"The fake at {fake}" if fake else "A fake of the next `notifier up`"
        return DoctorFinding(name=name, detail=f"{fake_name} receives its alerts; {hint}")
    remedy = f"Set {CREDENTIAL_SETTINGS[platform]}, or use a fake."
    return DoctorFinding(name=name, level=Level.WARN, detail="No credentials, and no fake.", remedy=remedy)


def _credentials_finding(push: PushSettings, platform: Platform, detail: str) -> DoctorFinding:
    if platform is Platform.APNS and not push.apns.topics:
        # A device can register any app. Apple rejects an app of another team with the same reason as a wrong key.
        detail = (
            f"{detail} Devices of any app can register, and a device of another team's app stops all alerts to Apple."
        )
        remedy = f"List your apps in {variable('push', platform, 'topics')}."
        return DoctorFinding(name=f"push {platform}", level=Level.WARN, detail=detail, remedy=remedy)
    return DoctorFinding(name=f"push {platform}", detail=detail)


def _is_listening(origin: str) -> bool:
    url = urlsplit(origin)
    try:
        with socket.create_connection((url.hostname or "", url.port or {"http": 80}.get(url.scheme, 443)), timeout=1.0):
            return True
    except OSError:
        return False


# Check of the token issuer's keys.


def issuer_finding(issuer: Issuer) -> DoctorFinding:
    from notifier.api.auth.issuer_keys import fetch, public_keys
    from notifier.api.auth.tokens import read_issuer_key

    try:
        count = len(public_keys(fetch(issuer.jwks))) if issuer.jwks else len([read_issuer_key(issuer)])
    except BadSetting as error:
        return _issuer_failure(
            error.detail, f"Put the issuer's public key into that file, or correct {variable('issuer', 'key')}."
        )
    except IssuerUnavailable as error:
        return _issuer_failure(
            error.detail,
            "Without the issuer's keys no user token is accepted: "
            f"make its server reachable, or correct {variable('issuer', 'jwks')}.",
        )
    except ValueError as error:
        return _issuer_failure(
            f"{issuer.jwks}: {error}.", "Ask the operator of the issuer for a JWK set with an Ed25519 or RSA key."
        )
    return DoctorFinding(name="issuer", detail=f"{issuer.name} has {count} usable keys.", value=count, unit="keys")


def _issuer_failure(detail: str, remedy: str) -> DoctorFinding:
    return DoctorFinding(name="issuer", level=Level.FAIL, detail=detail, remedy=remedy)


@click.command(epilog=example("notifier doctor", "notifier doctor --json | jq .ok"))
@data_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, data: Path | None, as_json: bool) -> None:
    """Check this machine and the data folder, and suggest remedies.

    Exit code 1 if a check fails.
    """
    settings = settings_for(data)
    findings = list(_all_findings(settings))
    if as_json:
        print_lines([envelope(settings.profile, None, [finding.check for finding in findings])])
    else:
        _print_findings(findings)
    if any(finding.level is Level.FAIL for finding in findings):
        ctx.exit(1)


def _all_findings(settings: Settings) -> Iterator[DoctorFinding]:
    from notifier.cli.commands.doctor.stores_and_processes import (
        cluster_findings,
        embedded_findings,
        insecure_findings,
        services_finding,
    )

    yield from machine_findings(settings.data, settings.profile)
    if settings.issuer.name:
        yield issuer_finding(settings.issuer)
    yield from insecure_findings(settings)
    yield from push_findings(settings.push)
    if settings.profile == "cluster":
        yield from cluster_findings(settings)
        return
    yield services_finding(settings)
    if settings.data.is_dir():
        yield from embedded_findings(settings)


def _print_findings(findings: Sequence[DoctorFinding]) -> None:
    lines = [
        line
        for finding in findings
        for line in ((str(finding.level), finding.name, finding.detail), ("", "", finding.remedy))
        if any(line)
    ]
    if is_terminal():
        console().print(grid([styled(cell) for cell in line] for line in lines))
        return
    width = max(len(finding.name) for finding in findings)
    for level, name, text in lines:
        click.echo(f"{level:<4}  {name:<{width}}  {text}")
