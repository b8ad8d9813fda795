"""How an engine of a test is closed to strangers: TLS by a certificate, and one user with a password."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Each engine's own words for it stand in its folder here."""

    certificate: Path
    """Its key and its certificate in one PEM file, the key unencrypted and in PKCS #8."""
    ca: Path
    """The authority's certificate, as PEM."""
    user: str
    password: str = field(repr=False)
