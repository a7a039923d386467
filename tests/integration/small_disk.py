"""A disk so small that it can be filled."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

__all__ = ["mount", "mounted", "unmount"]


def mount(path: Path, size: int) -> str | None:
    """Make a small disk of its own; why that is not possible, if it is not."""
    path.mkdir()
    command = shutil.which("mount")
    if os.geteuid() != 0 or command is None:
        return "mounting a small disk needs root and mount"
    line = [command, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if subprocess.run(line, capture_output=True, check=False).returncode:
        return "mounting is not permitted here"
    return None


def unmount(path: Path) -> None:
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextlib.contextmanager
def mounted(path: Path, size: int) -> Iterator[Path]:
    """A small disk of its own; skips where mounting is not allowed."""
    reason = mount(path, size)
    if reason is not None:
        pytest.skip(reason)
    try:
        yield path
    finally:
        unmount(path)
