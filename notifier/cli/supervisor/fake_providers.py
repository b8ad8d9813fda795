"""Fake push providers of `notifier up` and `notifier fake`: ports, settings and serving."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from errno import EADDRINUSE
from os import strerror
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from notifier.cli.running_service import read_ready, replace_file
from notifier.config import PUSH_FILE, PushSettings, Settings, variable
from notifier.domain.errors import (
    BadSetting,
    FileUnwritable,
    NotifierError,
    NotRunning,
    PortTaken,
    UnusableEnvironment,
)
from notifier.domain.ids import Platform

if TYPE_CHECKING:
    from notifier.devkit.fake_providers.behavior import Behavior
    from notifier.devkit.fake_providers.hosting import HostedFake

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeProviders:
    """The fakes that `up` runs, all in one process."""

    ports: Mapping[Platform, int]
    """Ports of the fakes. A replacement of the process keeps them."""
    data: Path
    push: PushSettings

    @classmethod
    def of(cls, settings: Settings, reserve_port: Callable[[str, int], int]) -> Self:
        """Reserve a port for each fake that `up` must run.

        A platform whose setting has the address of another fake gets none. Without the reservation, an outgoing
        connection of another process could get the port while the fake starts or restarts.
        """
        push = settings.push
        faked = [provider for provider in Platform if push.uses_fake(provider) and not push.settings_for(provider).fake]
        return cls(ports={platform: reserve_port(LOOPBACK, 0) for platform in faked}, data=settings.data, push=push)

    @property
    def arguments(self) -> Sequence[str]:
        """Arguments with which `notifier` runs the fakes."""
        ports = [argument for platform, port in self.ports.items() for argument in (f"--{platform}", str(port))]
        return ["fake", "all", *ports, "--script", self.push.fake_script]

    @property
    def file(self) -> Path:
        """File with the push settings of the running `up`."""
        return self.data / PUSH_FILE

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for the roles, with the addresses of the fakes."""
        origins = {variable("push", platform, "fake"): _origin(port) for platform, port in self.ports.items()}
        return {variable("push", "fakes"): self.push.fakes, **origins}

    def write_settings(self) -> None:
        """Write the push settings to the data folder. Raises FileUnwritable.

        Commands that run beside `up` read them, because their shell may lack the environment variables of `up`.
        """
        fakes = {platform: _origin(port) for platform, port in self.ports.items()}
        replace_file(self.file, self.push.with_fakes(fakes).toml)

    def remove_settings(self) -> None:
        self.file.unlink(missing_ok=True)

    @property
    def sentences(self) -> Sequence[str]:
        """Lines that say which fakes receive alerts instead of the providers."""
        own_fakes = f"fakes receive those of {', '.join(self.ports)} and append them to {self.data / 'alerts.ndjson'}"
        other_fakes = [
            f"the fake at {fake} receives those of {platform}"
            for platform in Platform
            if self.push.uses_fake(platform) and (fake := self.push.settings_for(platform).fake)
        ]
        return [*([own_fakes] if self.ports else []), *other_fakes]


def require_script(push: PushSettings) -> None:
    """Raise BadSetting if the script of the fakes is invalid."""
    try:
        parse_behavior(push.fake_script, Platform.APNS)
    except click.UsageError as error:
        raise BadSetting(f"{variable('push', 'fake_script')}: {error.message}") from error


def remove_stale_settings(data: Path) -> bool:
    """Remove the push settings that a killed `up` left behind. Return whether a file was removed."""
    file = data / PUSH_FILE
    try:
        read_ready(data)
        return False
    except NotRunning:
        with suppress(OSError):  # an unusable folder is reported where it is used
            file.unlink()
            return True
        return False


def _origin(port: int) -> str:
    return f"http://{LOOPBACK}:{port}"


# One fake in this process.


def parse_behavior(script: str, platform: Platform) -> "Behavior":
    from notifier.devkit.fake_providers.behavior import Behavior

    try:
        return Behavior.read(script, platform)
    except ValueError as error:
        raise click.UsageError(f"Invalid script: {error}") from error


@contextmanager
def run_fake(
    platform: Platform, behavior: "Behavior", *, port: int, out: Path | None, certificate: Path | None = None
) -> Iterator["HostedFake"]:
    """Serve a fake while the block lasts. Raises PortTaken, FileUnwritable or UnusableEnvironment."""
    from notifier.devkit.fake_providers.hosting import host_fake

    with ExitStack() as stack:
        try:
            server = stack.enter_context(host_fake(platform, behavior, port=port, out=out, certificate=certificate))
        except OSError as error:
            raise _startup_error(error, port, out) from error
        yield server


def _startup_error(error: OSError, port: int, out: Path | None) -> NotifierError:
    if error.errno == EADDRINUSE:
        return PortTaken(f"The address is 127.0.0.1:{port}.")
    if error.filename is not None:
        return FileUnwritable(f"{out}: {error.strerror}.")
    return UnusableEnvironment(f"Can't listen on 127.0.0.1:{port}: {strerror(error.errno or 0)}.")
