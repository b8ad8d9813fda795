"""The fakes of a `notifier up`: which it needs, where they listen for as long as it runs, and who is told so."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import click

from notifier.cli.playing import behaviour
from notifier.cli.ready import read_ready, replace_file
from notifier.config import OF_FAKES, Settings, variable
from notifier.domain.device import Platform
from notifier.domain.errors import BadSetting, NotRunning

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fakes:
    ports: Mapping[Platform, int]
    """The same for whichever process serves them."""
    script: str
    data: Path
    mode: str
    """Of the settings."""

    @classmethod
    def of(cls, settings: Settings, free: Callable[[str, int], int]) -> Self:
        """None where a setting names one that somebody runs. `free` finds a port.

        Raises BadSetting for a script that can't be played.
        """
        push = settings.push
        try:
            behaviour(push.fake_script, Platform.APNS)
        except click.UsageError as error:
            raise BadSetting(f"{variable('push', 'fake_script')}: {error.message}") from error
        wanted = [each for each in Platform if push.is_faked(each) and not push.of(each).fake]
        ports = {platform: free(HOST, 0) for platform in wanted}
        return cls(ports=ports, script=push.fake_script, data=settings.data, mode=push.fakes)

    @property
    def words(self) -> Sequence[str]:
        """Of the role."""
        ports = [word for platform, port in self.ports.items() for word in (f"--{platform}", str(port))]
        return ["fake", "all", *ports, "--script", self.script]

    @property
    def file(self) -> Path:
        return self.data / OF_FAKES

    @property
    def environment(self) -> Mapping[str, str]:
        """Of the roles."""
        said = {variable("push", platform, "fake"): _origin(port) for platform, port in self.ports.items()}
        return {variable("push", "fakes"): self.mode, **said}

    def tell(self) -> None:
        """Whatever is typed beside the roles reads it as settings. Raises Unwritable."""
        sections = [f'[push.{platform}]\nfake = "{_origin(port)}"\n' for platform, port in self.ports.items()]
        replace_file(self.file, "".join([f'[push]\nfakes = "{self.mode}"\n', *sections]))

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)

    @property
    def sentence(self) -> str:
        names = ", ".join(self.ports)
        return f"fakes take the alerts of {names}; what arrives is added to {self.data / 'alerts.ndjson'}"


def left_behind(data: Path) -> bool:
    """Whether an `up` that was killed had told where its fakes are. It holds no longer."""
    file = data / OF_FAKES
    try:
        read_ready(data)
        return False
    except NotRunning:
        with suppress(OSError):  # a folder that can't be used is told by whoever uses it
            file.unlink()
            return True
        return False


def _origin(port: int) -> str:
    return f"http://{HOST}:{port}"
