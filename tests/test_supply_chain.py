"""The bill of materials and the audit of the locked packages, against an index of our own."""

import http.server
import json
import re
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.supply_chain import audit, sbom
from scripts.supply_chain.lock_files import LockError, locked_packages

ROOT = Path(__file__).resolve().parents[1]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
DIGEST = "a" * 64
LOCK = f"""\
# made by hand
Safe_Package==1.0 \\
    --hash=sha256:{DIGEST} \\
    --hash=sha256:{"b" * 64}
    # via something
weak==2.1 ; os_name == 'nt' \\
    --hash=sha256:{DIGEST}
"""
WEAKNESS: dict[str, object] = {
    "id": "PYSEC-1",
    "aliases": ["CVE-1"],
    "summary": "reads all",
    "fixed_in": ["2.2"],
}


class Index(http.server.ThreadingHTTPServer):
    """A package index that knows what it is told."""

    known: dict[str, list[dict[str, object]]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(http.server.BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        known = self.server.known.get(self.path)
        self.send_response(404 if known is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps({"info": {}, "vulnerabilities": known}).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the library uses
        """Say nothing."""


@pytest.fixture
def index() -> Iterator[Index]:
    with Index(("127.0.0.1", 0), Answers) as server:
        server.known = {"/pypi/safe-package/1.0/json": [], "/pypi/weak/2.1/json": []}
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.lock"
    path.write_text(LOCK)
    return path


def test_packages_without_known_vulnerabilities_pass(index: Index, lock: Path) -> None:
    assert audit.main(["--index", index.url, str(lock)]) == 0


def test_a_known_vulnerability_is_named_with_the_version_that_mends_it(
    index: Index, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index.known["/pypi/weak/2.1/json"] = [WEAKNESS, {"id": "PYSEC-2", "withdrawn": "2026-01-01"}]

    assert audit.main(["--index", index.url, str(lock)]) == 1
    said = capsys.readouterr().out
    assert "weak 2.1: PYSEC-1, CVE-1: reads all (fixed in 2.2)" in said
    assert "PYSEC-2" not in said


def test_a_package_of_which_the_index_knows_nothing_does_not_pass(
    index: Index, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del index.known["/pypi/weak/2.1/json"]

    assert audit.main(["--index", index.url, str(lock)]) == 2
    assert "not looked up: weak 2.1" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["loose>=1.0", "bare==1.0", "-e .", "git+https://host/x"])
def test_what_is_not_pinned_with_a_digest_is_an_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.lock"
    path.write_text(line + "\n")

    with pytest.raises(LockError):
        locked_packages([path])
    assert audit.main([str(path)]) == 2


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_lock_file_pins_each_package_with_its_digests(path: Path) -> None:
    assert locked_packages([path])


def test_a_node_needs_these_packages_and_no_others() -> None:
    """Each one is code that runs beside the data: another needs a decision, not only a line."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=!~ \[]", each)[0] for each in project["dependencies"]}
    assert needed == {"click", "cramjam", "crc32c", "httptools", "msgspec", "rich", "uvloop"}


def test_the_bill_of_materials_lists_what_a_node_needs_and_is_the_same_each_time(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        sbom.main(str(tmp_path / name))
    written = (tmp_path / "one").read_bytes()
    assert written == (tmp_path / "two").read_bytes()
    bill = json.loads(written)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    named = {each["name"]: each for each in bill["components"]}
    assert {"msgspec", "uvloop", "httptools"} <= named.keys()
    # Nothing that only tests need.
    assert "pytest" not in named
    for each in bill["components"]:
        assert each["externalReferences"][0]["hashes"]
    assert bill["dependencies"][0]["dependsOn"] == [each["purl"] for each in bill["components"]]
