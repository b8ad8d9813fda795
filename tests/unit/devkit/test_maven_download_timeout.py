"""A download with Maven that takes too long is reported."""

from pathlib import Path

import pytest

from notifier.devkit.engines import maven
from notifier.domain.errors import UnusableEnvironment


def test_download_that_takes_too_long_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("java", "mvn"):
        (tmp_path / tool).write_text("#!/bin/sh\nexec sleep 60\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(maven, "DOWNLOAD_TIMEOUT_SECONDS", 0.5)
    pom, cache = tmp_path / "cassandra" / "pom.xml", tmp_path / "cache"
    pom.parent.mkdir()
    pom.write_text("<project/>")
    with pytest.raises(UnusableEnvironment, match=r"jars of cassandra within 0\.5 s"):
        maven.jars(pom, cache)
    assert [*cache.iterdir()] == []
