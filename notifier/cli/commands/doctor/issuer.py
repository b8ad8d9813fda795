"""What the doctor finds of the issuer: whether its keys can be had from here, as the API would."""

from notifier.api.auth.issuer_keys import fetch
from notifier.api.auth.jwks import public_keys
from notifier.api.auth.tokens import key_in
from notifier.cli.commands.doctor.machine import Finding, Level
from notifier.config import Issuer, variable
from notifier.domain.errors import BadSetting, IssuerUnavailable


def issuer_finding(issuer: Issuer) -> Finding:
    """Asks its address once."""
    try:
        found = len(public_keys(fetch(issuer.jwks))) if issuer.jwks else len([key_in(issuer)])
    except BadSetting as error:
        return _failed(error.detail, f"Put its public key there, or mend {variable('issuer', 'key')}.")
    except IssuerUnavailable as error:
        return _failed(error.detail, f"Nobody gets in without its keys: mend it, or {variable('issuer', 'jwks')}.")
    except ValueError as error:
        return _failed(f"Of {issuer.jwks}: {error}.", "Ask whoever runs it; people's tokens are Ed25519 or RSA.")
    return Finding(name="issuer", detail=f"{issuer.name} has {found} usable.", value=found, unit="keys")


def _failed(detail: str, remedy: str) -> Finding:
    return Finding(name="issuer", level=Level.FAIL, detail=detail, remedy=remedy)
