"""A bill of materials in CycloneDX: what a node needs to run, with the digests of the files.

    python -m scripts.supply_chain.sbom dist/goqueue.cdx.json

It follows from the lock file alone, so the same tree always yields the same bytes.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from goqueue import __version__
from scripts.supply_chain.lock_files import Package, locked_packages

__all__ = ["bill_of_materials", "main"]

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-run.lock"


def bill_of_materials(version: str, packages: Sequence[Package]) -> dict[str, Any]:
    product = f"pkg:pypi/goqueue@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": product,
                "name": "goqueue",
                "version": version,
                "purl": product,
            }
        },
        "components": [_component(package) for package in packages],
        "dependencies": [{"ref": product, "dependsOn": [each.url for each in packages]}],
    }


def _component(package: Package) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "purl": package.url,
        "externalReferences": [
            {
                "type": "distribution",
                "url": f"https://pypi.org/project/{package.name}/{package.version}/",
                "hashes": [{"alg": "SHA-256", "content": each} for each in package.digests],
            }
        ],
    }
    if package.marker:
        component["properties"] = [{"name": "goqueue:marker", "value": package.marker}]
    return component


def main(target: str) -> None:
    """Write the bill of materials of this tree."""
    encoded = msgspec.json.encode(bill_of_materials(__version__, locked_packages([LOCK])))
    Path(target).write_bytes(msgspec.json.format(encoded, indent=2) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
