"""Commands that start warm are processes like all others: they say and do what cold ones do."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.program import PROGRAM, Program
from tests.integration.warm_program import warm_program

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("topic", "list"),
        ("topic", "list", "-o", "json"),
        ("topic", "nonsense"),
        ("produce", "orders", "--format", "json"),
        ("log", "verify", "absent"),
    ],
    ids=" ".join,
)
def test_a_warm_command_ends_as_a_cold_one(arguments: tuple[str, ...], tmp_path: Path) -> None:
    cold = Program(NOWHERE, tmp_path, [*PROGRAM])
    warm = Program(NOWHERE, tmp_path)
    typed = '{"value": "ä", "colour": "blue"}\n'.encode()

    assert warm.run(*arguments, typed=typed) == cold.run(*arguments, typed=typed)


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    serve = ["serve", "--data-dir", str(tmp_path / "data"), "--http", "127.0.0.1:0"]

    done = warm_program().run(serve, environment, b"", timeout=0.5)

    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["PYTHONIOENCODING", "LC_ALL", "TZ", "GOQUEUE_NO_EXTENSIONS"])
def test_what_python_reads_before_the_program_needs_a_process_from_the_start(name: str) -> None:
    program = warm_program()

    assert program.can_run(program.environment)
    assert not program.can_run({**program.environment, name: "C.something"})


def test_a_shell_runs_a_warm_command_as_any_other(tmp_path: Path) -> None:
    warm = warm_program()
    environment = {
        **warm.environment,
        **warm.put_into(tmp_path),
        "PATH": f"{tmp_path}:/usr/bin:/bin",
    }

    def shell(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", script],
            env=environment,
            pass_fds=(warm.descriptor,),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    piped = shell("goqueue --help | grep -c goqueue")
    assert (piped.returncode, int(piped.stdout) > 1) == (0, True)
    wrong = shell("goqueue topic nonsense")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "nonsense" in wrong.stderr
    data = tmp_path / "data"
    ended = shell(
        f"goqueue serve --data-dir {data} --http 127.0.0.1:0 >{tmp_path}/log 2>&1 & "
        f"until grep -q node_recovered {tmp_path}/log; do sleep 0.02; done; kill $!; wait $!"
    )
    assert ended.returncode == 0, ended.stderr
