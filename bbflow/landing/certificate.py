"""The certificate of a run's Dask: who has the file is let in, by scheduler, workers and clients alike (mutual TLS)."""

import datetime
import stat
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bbflow.atomic import PRIVATE, write_whole
from bbflow.errors import ConfigError
from bbflow.landing.contact import only_one

VALID_DAYS = 3650
"""It goes with its nodes, long before; a day more at its begin is for hosts whose clocks differ."""


def certificate_of(contact: Path) -> Path:
    """Give the path of the certificate that belongs to a contact file."""
    return contact.absolute().with_suffix(".dask.pem")


def ensure_certificate(contact: Path) -> Path:
    """Give the certificate that belongs to a contact file, which is made if need be. Safe on several hosts at once.

    Raises
    ------
    ConfigError
        If there is one that others can read.
    """
    path = certificate_of(contact)
    with only_one(contact):
        if not path.exists():
            write_whole(path, new_certificate(), PRIVATE)
    return checked_certificate(path)


def checked_certificate(path: Path) -> Path:
    """Give the path of a certificate back if it is a secret.

    Raises
    ------
    ConfigError
        If others can read it.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ConfigError(f"the key in {path} is no secret, its mode is {mode:o}: remove it and start Dask anew")
    return path


def new_certificate() -> bytes:
    """Make a key and a certificate that it has signed itself (RFC 5280), as one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bbflow")])
    now = datetime.datetime.now(datetime.UTC)
    # Only this key's owners have a certificate of this authority, so being signed is being let in.
    uses = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, decipher_only=False, **uses),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form) + certificate.public_bytes(serialization.Encoding.PEM)
