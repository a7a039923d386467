"""Writes the sync modules that are stale."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.sync_client.modules import generate

__all__ = ["formatted", "read", "stale"]

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = ROOT / "src" / "goqueue" / "client"


def read(folder: Path) -> dict[str, str]:
    """The modules of a folder by name, without its `__init__`."""
    paths = sorted(folder.glob("*.py"))
    return {path.stem: path.read_text() for path in paths if path.stem != "__init__"}


def formatted(module: str, text: str) -> str:
    """With sorted imports, without those that nothing uses any more, in the usual format."""
    path = f"src/goqueue/client/sync/{module}.py"
    sort = ("check", "--quiet", "--exit-zero", "--select", "I,F401", "--fix")
    for command in (sort, ("format", "--quiet")):
        arguments = [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"]
        run = subprocess.run(
            arguments, input=text, cwd=ROOT, check=True, capture_output=True, text=True
        )
        text = run.stdout
    return text


def stale(folder: Path = _FOLDER) -> Iterator[tuple[Path, str]]:
    """The sync modules that differ from what the async ones make of them, as they should be."""
    sync = read(folder / "sync")
    for module, text in generate(sync, read(folder)).items():
        new = formatted(module, text)
        if new != sync[module]:
            yield folder / "sync" / f"{module}.py", new


def main() -> None:
    for path, text in list(stale()):
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
