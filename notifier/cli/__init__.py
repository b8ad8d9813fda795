"""Command line of `notifier`."""

import click

from notifier.cli.command_groups_and_errors import LazyCommands, example
from notifier.config.settings_and_environment import installed_version

SECTIONS = {
    "Try it": {
        "up": "notifier.cli.commands.up:up",
        "demo": "notifier.cli.commands.demo:demo",
        "import": "notifier.cli.commands.import_.command:importing",
        "fixture": "notifier.cli.commands.fixture:fixture",
    },
    "Access": {
        "token": "notifier.cli.commands.token:token",
        "key": "notifier.cli.commands.key:key",
    },
    "Send events": {
        "mention": "notifier.cli.commands.send_events:mention",
        "retract": "notifier.cli.commands.send_events:retract",
        "follow": "notifier.cli.commands.send_events:follow",
        "block": "notifier.cli.commands.send_events:block",
        "unblock": "notifier.cli.commands.send_events:unblock",
        "vip": "notifier.cli.commands.send_events:vip",
        "storm": "notifier.cli.commands.send_events:storm",
    },
    "Inspect": {
        "inbox": "notifier.cli.commands.inbox:inbox",
        "devices": "notifier.cli.commands.devices:devices",
        "push": "notifier.cli.commands.push:push",
        "top": "notifier.cli.commands.top.command:top",
        "audience": "notifier.cli.commands.audience:audience",
        "preview": "notifier.cli.commands.preview:preview",
        "ledger": "notifier.cli.commands.ledger:ledger",
        "explain": "notifier.cli.commands.explain.command:explain",
    },
    "Control": {
        "throttle": "notifier.cli.commands.throttle:throttle",
        "reach": "notifier.cli.commands.reach_and_held_mentions:reach",
        "flush": "notifier.cli.commands.flush_redis:flush",
        "deadletters": "notifier.cli.commands.deadletters:deadletters",
    },
    "Check and maintain": {
        "dump": "notifier.cli.commands.dump:dump",
        "doctor": "notifier.cli.commands.doctor.command_machine_and_credential_checks:doctor",
        "migrate": "notifier.cli.commands.migrate:migrate",
        "settings": "notifier.cli.commands.settings:settings",
    },
    "Run single processes": {
        "services": "notifier.cli.commands.services:services",
        "fake": "notifier.cli.commands.fake:fake",
        "api": "notifier.cli.commands.roles:api",
        "pump": "notifier.cli.commands.roles:pump",
        "worker": "notifier.cli.commands.roles:worker",
    },
}

COMPLETION = 'eval "$(_NOTIFIER_COMPLETE=bash_source notifier)"   # Tab completion; also zsh_source, fish_source'


@click.group(
    cls=LazyCommands,
    sections=SECTIONS,
    epilog=example("notifier demo", COMPLETION),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--no-color", envvar="NO_COLOR", hidden=True, help="Disable colors, with any non-empty value.")
@click.version_option(installed_version(), prog_name="notifier")
@click.pass_context
def main(ctx: click.Context, no_color: str | None) -> None:
    """Notify a celebrity's followers of mentions, in their inboxes and on their phones.

    Exit codes: 0 success; 1 a bad result, such as a failed check; 2 wrong usage; 3 an unusable machine or data folder,
    or an outage; 130 interrupted by Ctrl-C.
    """
    if no_color:
        ctx.color = False
