"""The packages that lock files pin, with the digests of their files."""

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

__all__ = ["LockError", "Package", "locked_packages"]

_PINNED = re.compile(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)(?:\s*;\s*(.+))?")
_DIGEST = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class LockError(Exception):
    """A line of a lock file that pins no package, or pins one without a digest."""


class Package(msgspec.Struct, frozen=True, order=True):
    """One version of a package; it is needed where `marker` holds, or everywhere."""

    name: str
    version: str
    marker: str
    digests: tuple[str, ...]

    @property
    def url(self) -> str:
        """The package as package URLs name it."""
        return f"pkg:pypi/{self.name}@{self.version}"


def locked_packages(files: Iterable[Path]) -> list[Package]:
    """Every package of the files once, in order."""
    found: dict[str, Package] = {}
    for file in files:
        for requirement in _requirements(file):
            package = _package(requirement, file.name)
            found.setdefault(package.url, package)
    return [found[url] for url in sorted(found)]


def _requirements(file: Path) -> Iterable[str]:
    """Requirements with their options; continued lines are joined, comments left out."""
    lines = (line for line in file.read_text().splitlines() if not line.lstrip().startswith("#"))
    return filter(None, map(str.strip, "\n".join(lines).replace("\\\n", " ").splitlines()))


def _package(requirement: str, file: str) -> Package:
    digests = tuple(sorted(_DIGEST.findall(requirement)))
    pinned = _PINNED.fullmatch(requirement.partition("--hash=")[0].strip())
    if pinned is None or not digests:
        raise LockError(f"{file}: {requirement[:80]!r} is not a pinned package with its digests")
    name, version, marker = pinned.groups()
    return Package(re.sub(r"[-_.]+", "-", name).lower(), version, marker or "", digests)
