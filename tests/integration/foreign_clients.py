"""The clients in Go and TypeScript: whether they can be built here, and their programs.

Nothing is fetched: packages that are not on this machine skip the test with a sentence.
`make test-clients` fetches them.
"""

import fcntl
import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["GO", "TYPESCRIPT", "go_program", "needs_go", "run", "typescript_program"]

ROOT = Path(__file__).resolve().parents[2]
GO = ROOT / "clients" / "go"
TYPESCRIPT = ROOT / "clients" / "typescript"
PROGRAM_S = 300
_FETCH = "`make test-clients` fetches them"
# Neither modules nor another version of Go.
_OFFLINE = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def run(folder: Path, *command: str, **variables: str) -> str:
    """What a command prints, which has to succeed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **_OFFLINE, **variables},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@functools.cache
def _why_not_go() -> str:
    if shutil.which("go") is None:
        return "go is not installed"
    environment = {**os.environ, **_OFFLINE}
    command = ["go", "list", "-deps", "-test", "./..."]
    listed = subprocess.run(
        command, cwd=GO, env=environment, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0:
        return ""
    if re.search(r"requires go >=", listed.stderr):
        return "go is too old for the client"
    return f"the packages of the Go client are not here: {_FETCH}"


@functools.cache
def _why_not_node() -> str:
    if shutil.which("node") is None:
        return "node is not installed"
    modules = TYPESCRIPT / "node_modules"
    if not (modules / ".package-lock.json").exists():
        return f"the packages of the TypeScript client are not here: {_FETCH}"
    # Several tests may begin at once, each in a process of its own.
    with (TYPESCRIPT / "tsconfig.json").open() as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)
        _build_typescript(modules)
    return ""


def _build_typescript(modules: Path) -> None:
    sources = [TYPESCRIPT / "tsconfig.json"]
    for folder in ("src", "test", "examples"):
        sources += (TYPESCRIPT / folder).glob("*.ts")
    newest = max(path.stat().st_mtime for path in sources)
    built = TYPESCRIPT / "dist" / "src" / "index.js"
    if not built.exists() or built.stat().st_mtime < newest:
        run(TYPESCRIPT, "node", str(modules / "typescript" / "bin" / "tsc"))


def _skip_for(reason: str) -> None:
    # After `make test-clients` has fetched them, packages that are missing are a fault.
    if reason.endswith(_FETCH) and "GOQUEUE_CLIENTS" in os.environ:
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


def needs_go() -> None:
    """Skip where the Go client cannot be built."""
    _skip_for(_why_not_go())


def go_program(package: str, directory: Path) -> str:
    """The path of a program of the Go client, built here; skips where that cannot be."""
    needs_go()
    path = directory / Path(package).name
    run(GO, "go", "build", "-o", str(path), package)
    return str(path)


def typescript_program(path: str) -> tuple[str, str]:
    """The command that runs a program of the TypeScript client; skips where that cannot be."""
    _skip_for(_why_not_node())
    return "node", str(TYPESCRIPT / "dist" / path)
