"""Certificates of every kind, made with the real openssl.

One authority, certificates that it signs, and what it withdraws. Everything is created in a folder
of the test; openssl takes a few milliseconds for each.
"""

import datetime as dt
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from goqueue.runtime.settings import TlsSettings

__all__ = ["NEEDS_OPENSSL", "Authority", "Issued"]

NEEDS_OPENSSL = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="certificates are made with openssl, which is missing"
)

_CONFIG = """
[ca]
default_ca = this
[this]
dir = {folder}
database = {folder}/index
new_certs_dir = {folder}
serial = {folder}/serial
crlnumber = {folder}/crlnumber
default_md = sha256
policy = anything
copy_extensions = copy
unique_subject = no
[anything]
commonName = supplied
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
"""

DAY = dt.timedelta(days=1)


class Issued(NamedTuple):
    """A certificate with its chain, and its key."""

    cert: str
    key: str

    def settings(self, **more: object) -> TlsSettings:
        """The settings of a listener with this certificate."""
        fields = {"is_enabled": True, "cert_file": self.cert, "key_file": self.key, **more}
        return TlsSettings(**fields)  # type: ignore[arg-type]  # the fields of the settings


class Authority:
    """Signs certificates. `parent` makes it an intermediate one."""

    def __init__(
        self, folder: Path, name: str = "Test CA", parent: "Authority | None" = None
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.name = name
        self._parent = parent
        self._count = 0
        self._config = folder / "config"
        self._config.write_text(_CONFIG.format(folder=folder))
        (folder / "index").write_text("")
        (folder / "serial").write_text("01\n")
        (folder / "crlnumber").write_text("01\n")
        self.key = folder / "ca-key.pem"
        self.ca_file = folder / "ca.pem"
        _key(self.key, "ec")
        if parent is None:
            run(
                *("req", "-x509", "-new", "-config", self._config, "-extensions", "authority"),
                *("-key", self.key, "-subj", f"/CN={name}", "-days", "90", "-out", self.ca_file),
            )
        else:
            issued = parent.issue(name, usage="authority", key=self.key)
            shutil.copy(issued.cert, self.ca_file)

    def issue(
        self,
        name: str = "node",
        sans: str = "DNS:localhost,IP:127.0.0.1",
        *,
        usage: str = "serverAuth",
        kind: str = "ec",
        begins: dt.timedelta = -DAY,
        ends: dt.timedelta = 60 * DAY,
        key: Path | None = None,
    ) -> Issued:
        """A certificate for some names, valid from now plus `begins` until now plus `ends`."""
        self._count += 1
        base = self.folder / f"{self._count}-{name.replace(' ', '-')}"
        request, cert = base.with_suffix(".csr"), base.with_suffix(".pem")
        extensions = base.with_suffix(".ext")
        if key is None:
            key = base.with_suffix(".key")
            _key(key, kind)
        run(
            "req",
            "-new",
            "-config",
            self._config,
            "-key",
            key,
            "-subj",
            f"/CN={name}",
            "-out",
            request,
        )
        extensions.write_text(_extensions(usage, sans))
        now = dt.datetime.now(dt.UTC)
        run(
            *("ca", "-batch", "-notext", "-config", self._config, "-in", request, "-out", cert),
            *("-cert", self.ca_file, "-keyfile", self.key, "-extfile", extensions),
            *("-startdate", _time(now + begins), "-enddate", _time(now + ends)),
        )
        if self._parent is not None:
            cert.write_text(cert.read_text() + self.ca_file.read_text())
        return Issued(str(cert), str(key))

    def revoke(self, issued: Issued) -> None:
        run(
            "ca",
            "-config",
            self._config,
            "-cert",
            self.ca_file,
            "-keyfile",
            self.key,
            "-revoke",
            issued.cert,
        )

    def ca_with_crl(self) -> str:
        """A file with the authority and what it has revoked so far."""
        crl = self.folder / "crl.pem"
        run(
            *("ca", "-config", self._config, "-cert", self.ca_file, "-keyfile", self.key),
            *("-gencrl", "-crldays", "7", "-out", crl),
        )
        both = self.folder / "ca-and-crl.pem"
        both.write_text(self.ca_file.read_text() + crl.read_text())
        return str(both)


def _extensions(usage: str, sans: str) -> str:
    if usage == "authority":
        return "basicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign,cRLSign\n"
    return f"extendedKeyUsage = {usage}\n" + (f"subjectAltName = {sans}\n" if sans else "")


def _key(path: Path, kind: str) -> None:
    options = {
        "ec": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
        "rsa": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
    }
    run("genpkey", *options[kind], "-out", path)
    path.chmod(0o600)


def _time(moment: dt.datetime) -> str:
    return moment.strftime("%y%m%d%H%M%SZ")


def run(*arguments: object) -> str:
    """Run openssl; what it printed."""
    ran = subprocess.run(
        ["openssl", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
