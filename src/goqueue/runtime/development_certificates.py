"""Certificates for development, created at start: `tls.self_signed`.

Creates an authority and a certificate signed by it in `tls/` of the data directory. The key of the
authority is used once and forgotten, so whoever trusts the authority trusts this one certificate.
Both are reused while they are valid and name the addresses of the node, and replaced together.

Needs the package `cryptography`, which only this module imports, and only here.
"""

import datetime as dt
import ipaddress
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from goqueue.runtime.os_files import OsFileSystem
from goqueue.storage import atomic_write

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["DevelopmentCertificate", "development_certificate", "development_names"]

DIRECTORY = "tls"
_CA, _CERT, _KEY = "ca.pem", "cert.pem", "key.pem"
_LIFETIME = dt.timedelta(days=90)
# With less than this left they are replaced at the next start.
_REMAINING = dt.timedelta(days=7)
# A clock that is a little behind must not make them invalid.
_SKEW = dt.timedelta(hours=1)
_PRIVATE = 0o077
_DIRECTORY_MODE = 0o700
_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound


class DevelopmentCertificate(NamedTuple):
    """Where the files are; `sha256` is the fingerprint of the authority."""

    ca_file: str
    cert_file: str
    key_file: str
    sha256: str


def development_names(host: str) -> tuple[str, ...]:
    """The names and addresses of a node that listens on a host, without repeats."""
    own = () if host in _ANY else (host,)
    return tuple(dict.fromkeys((*own, "localhost", "127.0.0.1", "::1", socket.gethostname())))


def development_certificate(root: str, names: tuple[str, ...]) -> DevelopmentCertificate:
    """The certificate in the data directory `root`, created or replaced if need be."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    directory = os.path.join(root, DIRECTORY)
    paths = [os.path.join(directory, name) for name in (_CA, _CERT, _KEY)]
    ca = _usable(paths, names)
    if ca is None:
        with suppress(FileExistsError):
            os.mkdir(directory, _DIRECTORY_MODE)
        files = OsFileSystem(directory)
        umask = os.umask(_PRIVATE)
        try:
            # The key comes first and the authority last: after a crash in between, the files do
            # not fit together, and are created again.
            for name, content in _create(names):
                atomic_write(files, ".", name, content)
        finally:
            os.umask(umask)
        ca = x509.load_pem_x509_certificate(_content(paths[0]))
    ca_file, cert_file, key_file = paths
    sha256 = ca.fingerprint(hashes.SHA256()).hex()
    return DevelopmentCertificate(ca_file, cert_file, key_file, sha256)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _usable(paths: list[str], names: tuple[str, ...]) -> "x509.Certificate | None":
    """The authority, if the files are whole, fit together, name the node and stay valid."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        ca = x509.load_pem_x509_certificate(_content(paths[0]))
        leaf = x509.load_pem_x509_certificate(_content(paths[1]))
        key = load_pem_private_key(_content(paths[2]), password=None)
        leaf.verify_directly_issued_by(ca)
        named = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return None
    now = dt.datetime.now(dt.UTC)
    is_valid = all(
        each.not_valid_before_utc <= now < each.not_valid_after_utc - _REMAINING
        for each in (ca, leaf)
    )
    is_same = key.public_key() == leaf.public_key()
    return ca if is_valid and is_same and list(named) == _general_names(names) else None


def _general_names(names: tuple[str, ...]) -> "list[x509.GeneralName]":
    from cryptography import x509

    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _create(names: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """The files by name, in the order in which they are written."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = serialization.Encoding.PEM
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _certificate("GoQueue development CA", ca_key, None, ca_key, ())
    leaf = _certificate("GoQueue development node", key, ca, ca_key, names)
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return [(_KEY, private), (_CERT, leaf.public_bytes(pem)), (_CA, ca.public_bytes(pem))]


def _certificate(
    name: str,
    key: "ec.EllipticCurvePrivateKey",
    issuer: "x509.Certificate | None",
    issuer_key: "ec.EllipticCurvePrivateKey",
    names: tuple[str, ...],
) -> "x509.Certificate":
    """A certificate of an authority if no one issues it, else of a server."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    is_ca = issuer is None
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    usage = x509.KeyUsage(
        digital_signature=not is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None), True)
        .add_extension(usage, True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), False
        )
    )
    if not is_ca:
        server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        named = x509.SubjectAlternativeName(_general_names(names))
        builder = builder.add_extension(server, False).add_extension(named, False)
    return builder.sign(issuer_key, hashes.SHA256())
