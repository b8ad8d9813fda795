"""The command line: one verb per role, and what operators, people and checks ask of a data folder."""

import click

from notifier.cli.verbs import Verbs, example
from notifier.config.version import installed_version

PLACES = {
    "up": "notifier.cli.up:up",
    "demo": "notifier.cli.demo:demo",
    "bench": "notifier.cli.bench:bench",
    "import": "notifier.cli.importing:importing",
    "fixture": "notifier.cli.fixture:fixture",
    "token": "notifier.cli.token:token",
    "key": "notifier.cli.key:key",
    "mention": "notifier.cli.mention:mention",
    "retract": "notifier.cli.retract:retract",
    "follow": "notifier.cli.follow:follow",
    "block": "notifier.cli.block:block",
    "unblock": "notifier.cli.block:unblock",
    "vip": "notifier.cli.vip:vip",
    "storm": "notifier.cli.storm:storm",
    "tab": "notifier.cli.tab:tab",
    "devices": "notifier.cli.devices:devices",
    "push": "notifier.cli.push:push",
    "top": "notifier.cli.top:top",
    "audience": "notifier.cli.audience:audience",
    "preview": "notifier.cli.preview:preview",
    "ledger": "notifier.cli.ledger:ledger",
    "explain": "notifier.cli.explain:explain",
    "throttle": "notifier.cli.throttle:throttle",
    "reach": "notifier.cli.reach:reach",
    "flush": "notifier.cli.flush:flush",
    "deadletters": "notifier.cli.deadletters:deadletters",
    "dump": "notifier.cli.dump:dump",
    "doctor": "notifier.cli.doctor:doctor",
    "migrate": "notifier.cli.migrate:migrate",
    "settings": "notifier.cli.settings:settings",
    "services": "notifier.cli.services:services",
    "fake": "notifier.cli.fake:fake",
    "api": "notifier.cli.roles:api",
    "pump": "notifier.cli.roles:pump",
    "worker": "notifier.cli.roles:worker",
}
"""In the order in which a newcomer needs them; imported when asked for, so that `notifier --help` is quick."""


COMPLETION = 'eval "$(_NOTIFIER_COMPLETE=bash_source notifier)"   # words complete with Tab; zsh_source, fish_source'


@click.group(
    cls=Verbs,
    places=PLACES,
    epilog=example("notifier demo", COMPLETION),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--no-color", envvar="NO_COLOR", hidden=True, help="Anything but nothing: no colours.")
@click.version_option(installed_version(), prog_name="notifier")
@click.pass_context
def main(ctx: click.Context, no_color: str | None) -> None:
    """Celebrity mention notifications: from one mention to the tabs and phones of its audience.

    Exit codes: 0 ok, 1 a check failed, 2 wrong usage, 3 this machine or folder can't run it, 130 cut off by Ctrl-C.
    """
    if no_color:
        ctx.color = False
