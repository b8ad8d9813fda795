"""Private keys as providers hand them out: PEM of one kind each; what is wrong is said, and the key never."""

from typing import TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from notifier.domain.errors import BadSetting

Kind = TypeVar("Kind")


def private_key(text: bytes, kind: type[Kind], *, whose: str, called: str) -> Kind:
    """Raises BadSetting. `whose` names it for who reads that, `called` is its kind in words."""
    if not text.lstrip().startswith(b"-----BEGIN"):
        raise BadSetting(f"{whose} is not PEM: it doesn't begin with -----BEGIN PRIVATE KEY-----.")
    # Neither the cause's words nor the cause itself go on: nobody promises that they have nothing of the key in them.
    try:
        key = load_pem_private_key(text, password=None)
    except TypeError:
        raise BadSetting(f"{whose} is locked by a password; it is needed without one.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadSetting(f"{whose} is PEM, but no private key that can be read.") from None
    if not isinstance(key, kind):
        raise BadSetting(f"{whose} is a key of another kind; {called} is needed.")
    return key
