"""The fakes of a `notifier up`: which it needs, where they listen for as long as it runs, and who is told so."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import click

from notifier.cli.http import read_ready, replace_file
from notifier.cli.supervisor.fake_provider import behaviour
from notifier.config import OF_PUSH, PushSettings, Settings, variable
from notifier.domain.errors import BadSetting, NotRunning
from notifier.domain.ids import Platform

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fakes:
    ports: Mapping[Platform, int]
    """The same for whichever process serves them."""
    data: Path
    push: PushSettings
    """Of the settings."""

    @classmethod
    def of(cls, settings: Settings, free: Callable[[str, int], int]) -> Self:
        """None where a setting names one that somebody runs. `free` finds a port."""
        push = settings.push
        wanted = [each for each in Platform if push.is_faked(each) and not push.of(each).fake]
        return cls(ports={platform: free(HOST, 0) for platform in wanted}, data=settings.data, push=push)

    @property
    def words(self) -> Sequence[str]:
        """Of the role."""
        ports = [word for platform, port in self.ports.items() for word in (f"--{platform}", str(port))]
        return ["fake", "all", *ports, "--script", self.push.fake_script]

    @property
    def file(self) -> Path:
        return self.data / OF_PUSH

    @property
    def environment(self) -> Mapping[str, str]:
        """Of the roles."""
        said = {variable("push", platform, "fake"): _origin(port) for platform, port in self.ports.items()}
        return {variable("push", "fakes"): self.push.fakes, **said}

    def tell(self) -> None:
        """Whatever is typed beside the roles sends as they do, and explains it so, though its shell knows less than
        that of `up`. Raises FileUnwritable."""
        fakes = {platform: _origin(port) for platform, port in self.ports.items()}
        replace_file(self.file, self.push.with_fakes(fakes).told)

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)

    @property
    def sentences(self) -> Sequence[str]:
        """Where alerts go that no provider gets."""
        own = f"fakes take those of {', '.join(self.ports)}; what arrives is added to {self.data / 'alerts.ndjson'}"
        others = [
            f"the fake at {fake} takes those of {platform}"
            for platform in Platform
            if self.push.is_faked(platform) and (fake := self.push.of(platform).fake)
        ]
        return [*([own] if self.ports else []), *others]


def require_script(push: PushSettings) -> None:
    """Raises BadSetting for one that can't be played."""
    try:
        behaviour(push.fake_script, Platform.APNS)
    except click.UsageError as error:
        raise BadSetting(f"{variable('push', 'fake_script')}: {error.message}") from error


def left_behind(data: Path) -> bool:
    """Whether an `up` that was killed had told how it sends alerts. It holds no longer."""
    file = data / OF_PUSH
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
