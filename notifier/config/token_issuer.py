"""Settings of the external token issuer."""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from notifier.config.setting_field import setting, variable
from notifier.domain.errors import BadSetting

MAX_WORD_LENGTH = 256
"""Maximum characters of an issuer's name, audience or JWKS URL."""


def _is_single_word(text: str) -> bool:
    return 0 < len(text) <= MAX_WORD_LENGTH and text.isprintable() and " " not in text


def _is_safe_url(url: str) -> bool:
    """Accept only TLS or a loopback host: on another connection an attacker could replace the keys."""
    try:
        address = urlsplit(url)
        if not _is_single_word(url) or not address.hostname or "@" in address.netloc or address.port == 0:
            return False
        return address.scheme == "https" or (address.scheme == "http" and is_loopback(address.hostname))
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    name: str = setting(
        "",
        requirement="empty, or one word",
        meaning="Issuer (`iss`) of user tokens; tokens of other issuers are rejected. If empty, this service "
        "signs user tokens itself.",
        is_valid=lambda name: not name or _is_single_word(name),
    )
    jwks: str = setting(
        "",
        requirement="empty, or an https:// URL without a user (http:// for loopback)",
        meaning="URL of the issuer's public keys, a JWK set. The keys may change at any time.",
        is_valid=lambda url: not url or _is_safe_url(url),
    )
    key: str = setting(
        "", requirement="a file", meaning="File with the issuer's public key, PEM or JWK, instead of a URL."
    )
    audience: str = setting(
        "notifier",
        requirement="one word",
        meaning="Audience (`aud`) that the tokens must contain.",
        is_valid=_is_single_word,
    )

    def __post_init__(self) -> None:
        """Reject an incomplete or ambiguous issuer.

        Without a name the issuer would be ignored, and this service would sign user tokens itself.
        """
        if bool(self.name) != bool(self.jwks or self.key):
            raise BadSetting(
                f"An issuer needs {variable('issuer', 'name')}, and {variable('issuer', 'jwks')} or "
                f"{variable('issuer', 'key')}."
            )
        if self.jwks and self.key:
            raise BadSetting(f"Set only one of {variable('issuer', 'jwks')} and {variable('issuer', 'key')}.")
