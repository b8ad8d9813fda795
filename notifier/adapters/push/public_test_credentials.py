"""Public test credentials: only the fakes accept them, and they protect nothing."""

import json
from functools import cache

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from notifier.adapters.push.apns.provider_token import AppleKey
from notifier.adapters.push.fcm.service_account import ServiceAccount
from notifier.adapters.push.jwt import base64url
from notifier.adapters.push.webpush.vapid import Vapid

APPLE_KEY_ID, APPLE_TEAM_ID = "KEY1234567", "TEAM123456"
GOOGLE_PROJECT, GOOGLE_EMAIL = "made-up", "sender@made-up.iam.gserviceaccount.com"
GOOGLE_KEY_ID = "0123456789abcdef0123456789abcdef01234567"
TOKEN_ORIGIN, TOKEN_PATH = "https://oauth2.googleapis.com", "/token"
VAPID_SUBJECT = "mailto:alerts@made-up.dev"

_PRIMES = (
    "eb77015d4804e14674c482db30e497b0399cf1fcdd3a9cc240274895ca7dcf99"
    "d9c22ad016ae92c29b1f29b8e02b65e3f96b190e0bad86aaaac1103ebf46c1f0"
    "85f08f8c1d689789b614abb3adc27c952dde85e51a39e7e2738cb512c62a71a5"
    "e8e7bda3bc532075e6c351d14bbe5117721f5cffc65b496a08478fa80d1b0569",
    "db2932c16ddb054781ab2b3a11a15d969753806599e87d30e8107a7a936860c7"
    "2b3247904d18db4232d73f1ded56481ceccc17c194e0ce21424581c25b8ad930"
    "92345dbb7e9ec55d9fd23fc5c9804fe16addb78360f90b99e9c1f26b7db1b9d1"
    "4ec04a5b28a73e808700b870d6b241d279bda2716540e91020fcb69f778c5fe5",
)
_EXPONENT = 65_537


def elliptic_key(number: int) -> ec.EllipticCurvePrivateKey:
    """Derive a key from a number, so that independent processes have the same key."""
    return ec.derive_private_key(number, ec.SECP256R1())


@cache
def fake_google_key() -> rsa.RSAPrivateKey:
    p, q = (int(digits, 16) for digits in _PRIMES)
    d = pow(_EXPONENT, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(e=_EXPONENT, n=p * q)
    numbers = rsa.RSAPrivateNumbers(
        p=p,
        q=q,
        d=d,
        dmp1=rsa.rsa_crt_dmp1(d, p),
        dmq1=rsa.rsa_crt_dmq1(d, q),
        iqmp=rsa.rsa_crt_iqmp(p, q),
        public_numbers=public,
    )
    # The numbers are known primes. Checking them would take a tenth of a second in each process.
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def fake_apple_key() -> AppleKey:
    return AppleKey(key=elliptic_key(1), key_id=APPLE_KEY_ID, team_id=APPLE_TEAM_ID)


def fake_service_account(token_origin: str = f"{TOKEN_ORIGIN}:443") -> ServiceAccount:
    """Return a service account that requests its tokens from this origin, with Google's audience."""
    return ServiceAccount(
        project=GOOGLE_PROJECT,
        email=GOOGLE_EMAIL,
        key_id=GOOGLE_KEY_ID,
        key=fake_google_key(),
        token_origin=token_origin,
        token_path=TOKEN_PATH,
        audience=TOKEN_ORIGIN + TOKEN_PATH,
    )


def fake_service_account_file(token_uri: str = TOKEN_ORIGIN + TOKEN_PATH) -> bytes:
    """Return the account of `fake_service_account` as a JSON file in Google's format."""
    file = {
        "type": "service_account",
        "project_id": GOOGLE_PROJECT,
        "private_key_id": GOOGLE_KEY_ID,
        "private_key": fake_google_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        "client_email": GOOGLE_EMAIL,
        "token_uri": token_uri,
    }
    return json.dumps(file).encode()


def fake_vapid() -> Vapid:
    key = elliptic_key(2)
    public = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return Vapid(key=key, subject=VAPID_SUBJECT, public_key=base64url(public))
