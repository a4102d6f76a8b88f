"""Certificates for tests: an authority of our own, and what goes wrong with certificates in practice."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates; `path` is its own one, for SSL_CERT_FILE."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "csbot test authority")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = _builder(self._name, self._name, self._key, datetime.now(UTC)).add_extension(
            constraints, critical=True
        ).sign(self._key, hashes.SHA256())  # fmt: skip
        self.path = folder / "authority.pem"
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def context_for(self, host: str, *, expired: bool = False, self_signed: bool = False) -> ssl.SSLContext:
        """Return a server's context with a certificate for `host`, a name or an IP address."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        begin = datetime.now(UTC) - timedelta(days=60 if expired else 0)
        issuer = name if self_signed else self._name
        certificate = (
            _builder(name, issuer, key, begin)
            .add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
            .sign(key if self_signed else self._key, hashes.SHA256())
        )
        chain = self._folder / "server.pem"
        chain.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        return context


def _builder(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - timedelta(hours=1))
        .not_valid_after(begin + timedelta(days=30))
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
