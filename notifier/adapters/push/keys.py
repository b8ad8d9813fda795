"""Private keys as providers hand them out, in PEM; what is wrong with one is said, and the key never."""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from notifier.domain.errors import BadSetting


def private_key(text: bytes, whose: str) -> PrivateKeyTypes:
    """Of any kind. `whose` names it for who reads the BadSetting that this raises."""
    if not text.lstrip().startswith(b"-----BEGIN"):
        raise BadSetting(f"{whose} is not PEM: it doesn't begin with -----BEGIN PRIVATE KEY-----.")
    # Neither the cause's words nor the cause itself go on: nobody promises that they have nothing of the key in them.
    try:
        return load_pem_private_key(text, password=None)
    except TypeError:
        raise BadSetting(f"{whose} is locked by a password; it is needed without one.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadSetting(f"{whose} is PEM, but no private key that can be read.") from None
