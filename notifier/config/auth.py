"""The settings of the issuer: who signs people's tokens where this service doesn't sign them itself."""

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from notifier.config.field import setting, variable
from notifier.domain.errors import BadSetting

LONGEST = 256
"""Characters of a name and an audience: a URL of an ordinary length."""


def _is_word(text: str) -> bool:
    return 0 < len(text) <= LONGEST and text.isprintable() and " " not in text


def _is_safe(url: str) -> bool:
    """Whoever can answer in the issuer's place can be anybody: so TLS, or a line that never leaves this machine."""
    try:
        at = urlsplit(url)
        if not _is_word(url) or not at.hostname or "@" in at.netloc or at.port == 0:
            return False
        return at.scheme == "https" or (at.scheme == "http" and is_loopback(at.hostname))
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
        must="empty, or one word",
        means="the `iss` of people's tokens, and then no others count; none: this service signs them itself",
        holds=lambda name: not name or _is_word(name),
    )
    jwks: str = setting(
        "",
        must="empty, or an https:// address without a user (http:// of a loopback)",
        means="where its public keys are, as a JWK set; they may change while everything runs",
        holds=lambda url: not url or _is_safe(url),
    )
    key: str = setting("", must="a file", means="with its one public key, as PEM or as a JWK, instead of the address")
    audience: str = setting(
        "notifier",
        must="one word",
        means="the `aud` of its tokens, or one of several",
        holds=_is_word,
    )

    def __post_init__(self) -> None:
        """Half an issuer would be read as none: then tokens of ours would open what somebody meant to close."""
        if bool(self.name) != bool(self.jwks or self.key):
            raise BadSetting(
                f"An issuer has {variable('issuer', 'name')}, and {variable('issuer', 'jwks')} or"
                f" {variable('issuer', 'key')}."
            )
        if self.jwks and self.key:
            raise BadSetting(f"{variable('issuer', 'jwks')} and {variable('issuer', 'key')} exclude each other.")
