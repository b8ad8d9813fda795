"""A temporary certificate authority that issues certificates for servers on the loopback."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALIDITY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    key: ec.EllipticCurvePrivateKey
    name: x509.Name
    file: Path
    """Certificate of the authority."""

    @classmethod
    def create(cls, folder: Path, name: str) -> "Authority":
        folder.mkdir(parents=True, exist_ok=True)
        key, named = ec.generate_private_key(ec.SECP256R1()), _x509_name(name)
        certificate = (
            _builder(named, named, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        file = folder / f"{name}.pem"
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return cls(key=key, name=named, file=file)

    def server(self, host: str = "127.0.0.1") -> Path:
        """Create a key and a certificate for this address or name, in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_x509_name("server"), self.name, key.public_key())
            .add_extension(x509.SubjectAlternativeName([_general_name(host)]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        file = self.file.with_name(f"{self.file.stem}-{host}.pem")
        file.touch(mode=0o600)
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return file


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _x509_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALIDITY)
        .not_valid_after(now + VALIDITY)
    )
