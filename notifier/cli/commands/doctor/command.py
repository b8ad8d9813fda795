"""`notifier doctor`: whether this machine and this folder can run it, and what to do where they can't."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from notifier.cli.commands.doctor.machine import Finding, Level, machine_findings
from notifier.cli.group import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import console, envelope, grid, print_lines, styled, watched
from notifier.config import Settings


@click.command(epilog=example("notifier doctor", "notifier doctor --json | jq .ok"))
@data_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, data: Path | None, as_json: bool) -> None:
    """Check this machine and the data folder; exits with 1 when a check fails."""
    settings = settings_for(data)
    findings = list(_findings(settings))
    if as_json:
        print_lines([envelope(settings.profile, None, [each.check for each in findings])])
    else:
        _print(findings)
    if any(each.level is Level.FAIL for each in findings):
        ctx.exit(1)


def _findings(settings: Settings) -> Iterator[Finding]:
    from notifier.cli.commands.doctor.data_folder import (
        cluster_findings,
        folder_findings,
        insecure_findings,
        services_finding,
    )
    from notifier.cli.commands.doctor.issuer import issuer_finding
    from notifier.cli.commands.doctor.push import push_findings

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
        yield from folder_findings(settings)


def _print(findings: Sequence[Finding]) -> None:
    """What to do stands under what was found."""
    lines = [
        line
        for each in findings
        for line in ((str(each.level), each.name, each.detail), ("", "", each.remedy))
        if any(line)
    ]
    if watched():
        console().print(grid([styled(cell) for cell in line] for line in lines))
        return
    width = max(len(each.name) for each in findings)
    for level, name, words in lines:
        click.echo(f"{level:<4}  {name:<{width}}  {words}")
