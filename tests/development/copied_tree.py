"""A copy of the tree in which a test does what a page of docs/development says."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.tidy.sources import ROOT

__all__ = ["CopiedTree", "blocks_of"]

_FOLDERS = ("src", "scripts", "docs")
_TEXTS = frozenset({".md", ".py"})
_BLOCK = re.compile(r"^```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks_of(page: str) -> list[str]:
    """The code of a page, block by block."""
    text = (ROOT / "docs" / "development" / page).read_text(encoding="utf-8")
    return _BLOCK.findall(text)


class CopiedTree(msgspec.Struct, frozen=True):
    """The package, the generators and the documents in a folder of their own."""

    root: Path

    @classmethod
    def into(cls, folder: Path) -> "CopiedTree":
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        for name in _FOLDERS:
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        return cls(folder)

    def insert(self, path: str, text: str, *, before: str) -> None:
        """Put text before a line that occurs once."""
        file = self.root / path
        content = file.read_text(encoding="utf-8")
        assert content.count(before) == 1, f"{path} has another shape than the page says"
        file.write_text(content.replace(before, text + before), encoding="utf-8")

    def texts(self) -> dict[str, str]:
        files = (path for name in _FOLDERS for path in (self.root / name).rglob("*"))
        return {
            path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8")
            for path in files
            if path.suffix in _TEXTS
        }

    def python(self, *arguments: str) -> str:
        """What Python prints with the sources of the copy, and the tests of this tree."""
        done = self.try_python(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def try_python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The same, whether or not it succeeds."""
        places = (self.root / "src", self.root, ROOT)
        environment = {
            "PYTHONPATH": ":".join(map(str, places)),
            "HOME": str(self.root),
        }
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
