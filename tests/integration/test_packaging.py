"""What users install: the source distribution, the compiled wheel and the pure one.

Both wheels are installed into environments with nothing else in them, where the program runs a node
and SDK and program pass a message through it. The tests of one file share the distributions.
"""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from goqueue.records import COMPILED
from tests.integration.packages import (
    OWN_VERSION,
    ROOT,
    Environment,
    IndexUnreachable,
    build_sdist,
    build_wheel,
    find_python,
    wheels_for,
)
from tests.integration.program import Program

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
# The newest that most machines have. The compiled wheel is tried with the Python of this run, and
# the others differ from neither of them.
IN_EVERY_RUN = ("3.13",)
SECONDS_MAX = 60

needs_compiler = pytest.mark.skipif(not COMPILED, reason="this tree has no compiled extensions")

# Run by the Python of an environment: prints which of both ran, and what came back.
FIRST_MESSAGE = """
import asyncio
import importlib.util
import sys

# The SDK needs nothing of what only the command line needs.
sys.modules.update(click=None, rich=None)

import goqueue
from goqueue.records import COMPILED

assert importlib.util.find_spec("Cython") is None
assert goqueue.__file__.startswith(sys.prefix), goqueue.__file__


async def main() -> None:
    async with goqueue.connect(sys.argv[1]) as q:
        await q.topics.create("payments")
        await q.publish("payments", {"id": 7}, key="a")
        async for message in q.consume("payments", group="ledger"):
            print("compiled" if COMPILED else "interpreted", message.json())
            await message.ack()
            break


asyncio.run(main())
with goqueue.connect_sync(sys.argv[1]) as q:
    assert sorted(q.topics.list()) == ["orders", "payments"]
"""


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sdist(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def pure_wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(sdist, tmp_path_factory.mktemp("pure"), has_extensions=False)


@pytest.fixture(scope="module")
def compiled_wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(sdist, tmp_path_factory.mktemp("compiled"), has_extensions=True)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of wheels for a Python; skips the test if there is none."""

    def find(version: str) -> Path:
        try:
            return wheels_for(version, tmp_path_factory.mktemp("wheels"))
        except IndexUnreachable as unreachable:
            pytest.skip(f"no wheels for Python {version} here, and no index: {unreachable}")

    return find


@pytest.fixture
def environment(tmp_path: Path) -> Callable[[str], Environment]:
    """Makes an empty environment of a Python; skips the test if the machine has none."""

    def make(version: str) -> Environment:
        python = find_python(version)
        if python is None:
            pytest.skip(f"this machine has no Python {version}")
        return Environment(tmp_path / "environment", python)

    return make


def sources(folder: Path) -> Iterator[str]:
    """What belongs into a source distribution of all that lies in `src`."""
    for file in (folder / "src").rglob("*"):
        if file.suffix in {".py", ".pyi", ".pxd", ".h"} or file.name in {"py.typed", "build.json"}:
            yield str(file.relative_to(folder))


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def pass_a_message(environment: Environment, home: Path) -> str:
    """Run a node, and a message through it by program and SDK; what the SDK's script printed."""
    home.mkdir()
    program = Program("", home, [str(environment.program)])
    with program.talk("dev", "--port", "0", "--data-dir", home / "data") as node:
        server = node.read_line().split()[-1]
        client = Program(server, home, [str(environment.program)])
        client.do("topic", "create", "orders")
        client.do("produce", "orders", "-m", "hello")
        assert client.do("consume", "orders", "-g", "billing", "--values").text == "hello\n"
        assert client.do("consume", "orders", "-g", "billing", "--values").text == ""
        done = subprocess.run(
            [environment.python, "-I", "-W", "error", "-c", FIRST_MESSAGE, server],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert node.stop().code == 0
    return done.stdout.strip()


# ---- contents ------------------------------------------------------------------------------


def test_the_source_distribution_has_what_a_build_needs_and_nothing_else(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        files = {member.name.partition("/")[2] for member in archive if member.isfile()}
    files = {name for name in files if ".egg-info/" not in name}

    about = {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md"}
    build = {"MANIFEST.in", "pyproject.toml", "setup.cfg", "setup.py"}
    assert files == about | build | set(sources(ROOT))


def test_the_pure_wheel_serves_every_python_and_has_no_sources_of_extensions(
    pure_wheel: Path,
) -> None:
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(pure_wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert "goqueue/py.typed" in names
    assert {Path(name).suffix for name in names} <= {".py", ".pyi", ".typed", ".json"}
    assert {name.partition("/")[0] for name in names} == {"goqueue", "pyspark_goqueue"}


@needs_compiler
def test_the_compiled_wheel_has_an_extension_for_every_compiled_module(
    compiled_wheel: Path, pure_wheel: Path
) -> None:
    assert compiled_wheel.name.split("-")[2] == f"cp{OWN_VERSION.replace('.', '')}"
    with zipfile.ZipFile(compiled_wheel) as archive:
        names = set(archive.namelist())
    with zipfile.ZipFile(pure_wheel) as archive:
        pure = set(archive.namelist())
    built = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.so")}
    assert len(built) > 1
    assert names - pure == built


def test_the_metadata_names_license_and_pythons_but_no_build_tools_and_no_home(
    pure_wheel: Path,
) -> None:
    told = metadata(pure_wheel)
    assert told["License-Expression"] == "MIT"
    assert told.get_all("License-File") == ["LICENSE"]
    # The project has no public home yet, and must not name one that is not its own.
    assert told.get_all("Project-URL") is None
    classifiers = told.get_all("Classifier") or []
    for version in PYTHONS:
        assert f"Programming Language :: Python :: {version}" in classifiers
    assert set(told.get_all("Provides-Extra") or ()) == {
        "avro",
        "declarative",
        "grpc",
        "otlp",
        "protobuf",
        "schemas",
        "spark",
        "tls",
    }
    required = " ".join(told.get_all("Requires-Dist") or ()).lower()
    assert "cython" not in required
    assert "setuptools" not in required


@pytest.mark.parametrize(
    "address", [pytest.param("{clone}", marks=pytest.mark.long), "git+file://{clone}"]
)
def test_pip_builds_the_wheel_from_a_clone_and_from_a_git_address(
    address: str, pure_wheel: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "clone"
    cloned = subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=False)
    if cloned.returncode:
        pytest.skip("this tree is not a clone")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run(
        [*pip, "--wheel-dir", tmp_path / "wheels", address.format(clone=clone)],
        env={**os.environ, "GOQUEUE_NO_EXTENSIONS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        check=True,
        timeout=SECONDS_MAX,
    )
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert wheel.name == pure_wheel.name


# ---- a first message -----------------------------------------------------------------------


@needs_compiler
def test_the_compiled_wheel_passes_a_message_in_an_empty_environment(
    compiled_wheel: Path,
    wheels: Callable[[str], Path],
    environment: Callable[[str], Environment],
    tmp_path: Path,
) -> None:
    empty = environment(OWN_VERSION)
    empty.install(compiled_wheel, wheels(OWN_VERSION))
    assert pass_a_message(empty, tmp_path / "home") == "compiled {'id': 7}"


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, marks=() if version in IN_EVERY_RUN else pytest.mark.long)
        for version in PYTHONS
    ],
)
def test_the_pure_wheel_passes_a_message_in_an_empty_environment_of_every_python(
    version: str,
    pure_wheel: Path,
    wheels: Callable[[str], Path],
    environment: Callable[[str], Environment],
    tmp_path: Path,
) -> None:
    empty = environment(version)
    empty.install(pure_wheel, wheels(version))
    assert pass_a_message(empty, tmp_path / "home") == "interpreted {'id': 7}"


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("version", PYTHONS)
def test_a_wheel_that_pip_compiles_from_the_source_distribution_passes_a_message(
    version: str,
    sdist: Path,
    wheels: Callable[[str], Path],
    environment: Callable[[str], Environment],
    tmp_path: Path,
) -> None:
    empty = environment(version)
    found = wheels(version)
    empty.install(empty.compile(sdist, tmp_path / "built"), found)
    assert pass_a_message(empty, tmp_path / "home") == "compiled {'id': 7}"


@pytest.mark.long
@needs_compiler
def test_a_build_from_nothing_has_the_files_of_a_build_after_set_up(
    sdist: Path, compiled_wheel: Path, tmp_path: Path
) -> None:
    anew = build_wheel(sdist, tmp_path, has_extensions=True, anew=True)
    assert anew.name == compiled_wheel.name
    with zipfile.ZipFile(anew) as new, zipfile.ZipFile(compiled_wheel) as seeded:
        assert set(new.namelist()) == set(seeded.namelist())
