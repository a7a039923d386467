"""What the documents show is run: every fenced python, sh and console block, top to bottom.

The blocks of one document share a directory. Python blocks share one namespace and run first,
under the line numbers of the document. A line that starts with `make` is not run but must name
targets of the Makefile. A block after `<!-- not run: reason -->` is left alone.

In a console block a command follows `$ ` and its output follows the command. The real output must
match line by line; a time matches any time, `…` any text, and a line that is only `…` any lines.

A document that says `<!-- with a broker -->` gets a node of its own: clients find it by the
environment, and the address that a reader would use is replaced by its address. One that says
`<!-- with a cluster -->` gets three nodes that have formed a cluster, and the address of the first.
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from tests.integration.cluster.cluster_processes import running_cluster
from tests.integration.fast_java import FAST_JAVA
from tests.integration.server_process import serving
from tests.integration.warm_program import warm_program

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LANGUAGES = ("python", "sh", "console")
PROMPT = "$ "
ELLIPSIS = "…"
TIME = re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:[\d.]+")
SECONDS_MAX = 280

WITH_A_BROKER = "<!-- with a broker -->"
WITH_A_CLUSTER = "<!-- with a cluster -->"
USUAL_ADDRESS = "127.0.0.1:8080"
NOT_RUN = re.compile(r"<!-- not run: \w+[^>]*-->")
# A reader starts outside the project, a test inside.
GETTING_THERE = re.compile(r"(git clone|cd goqueue\b)")
# What runs only after `make setup-spark`.
ON_SPARK = re.compile(r"goqueue pipeline|spark", re.IGNORECASE)
HAS_SPARK = find_spec("pyspark") is not None


class Block(msgspec.Struct, frozen=True):
    """A fenced block of a document, and the number of its first line."""

    language: str
    first_line: int
    lines: tuple[str, ...]


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block that is to be run."""
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        opening = re.match(r"( *)(```+)(\w*)", lines[position])
        if opening is None:
            position += 1
            continue
        indent, fence, language = opening.groups()
        end = position + 1
        while end < len(lines) and lines[end].strip() != fence:
            end += 1
        before = next((line for line in reversed(lines[:position]) if line.strip()), "")
        if language in LANGUAGES and not NOT_RUN.search(before):
            body = tuple(line.removeprefix(indent) for line in lines[position + 1 : end])
            yield Block(language, position + 2, body)
        position = end + 1


def python_script(text: str) -> str:
    """All Python of a document as one script; a line keeps its number."""
    script: list[str] = []
    for block in blocks(text):
        if block.language == "python":
            script += [""] * (block.first_line - 1 - len(script))
            script += block.lines
    return "\n".join(script)


class Step(msgspec.Struct, frozen=True):
    """A command of a console block, and the lines that the document shows as its output."""

    command: str
    output: tuple[str, ...]


def steps(block: Block) -> list[Step]:
    """The commands of a console block, each with its output."""
    found: list[Step] = []
    for line in block.lines:
        if line.startswith(PROMPT):
            found.append(Step(line.removeprefix(PROMPT), ()))
        else:
            assert found, f"line {block.first_line}: a console block begins with a command"
            found[-1] = Step(found[-1].command, (*found[-1].output, line))
    return found


def console_steps(text: str) -> list[Step]:
    """Every command of the console blocks of a document, in the order in which they run."""
    return [step for block in blocks(text) if block.language == "console" for step in steps(block)]


def shell_script(text: str) -> str:
    """All commands of a document that can be run inside a test.

    The output of the n-th console command goes to the file `printed-n`.
    """
    lines: list[str] = []
    printed = 0
    for block in blocks(text):
        if block.language == "sh":
            lines += [
                line
                for line in block.lines
                if not line.startswith("make") and not GETTING_THERE.match(line)
            ]
        elif block.language == "console":
            for step in steps(block):
                lines += [f"{{ {step.command}", f"}} >printed-{printed} 2>&1"]
                printed += 1
    return "\n".join(lines)


def is_as_shown(shown: tuple[str, ...], printed: str) -> bool:
    """Whether the output is what the document shows, up to its ellipses."""
    pattern = "".join(
        "(?:.*\n)*?" if line == ELLIPSIS else f"{_line_pattern(line)}\n" for line in shown
    )
    lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch(pattern, lines) is not None


def _line_pattern(line: str) -> str:
    parts = [TIME.split(part) for part in line.rstrip().split(ELLIPSIS)]
    return ".*".join(TIME.pattern.join(map(re.escape, part)) for part in parts)


def targets_shown(text: str) -> list[str]:
    """The Makefile targets that a document tells its reader to run."""
    shown: list[str] = []
    for block in blocks(text):
        for line in block.lines if block.language == "sh" else ():
            words = line.split("#")[0].split()
            if words[:1] == ["make"]:
                shown += [word for word in words[1:] if "=" not in word]
    return shown


def makefile_targets() -> list[str]:
    return re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def run(command: list[str], folder: Path, server: str = "") -> None:
    """Run with the tools of this environment first on the path, and show all output on failure."""
    warm = warm_program()
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    places = (tools, Path(sys.executable).parent, os.environ.get("PATH", os.defpath))
    named = {"GOQUEUE_SERVER": server} if server else {}
    ran = subprocess.run(
        command,
        cwd=folder,
        env={
            **warm.environment,
            **FAST_JAVA,
            # Contexts that a document sets are its own; what Spark keeps for later is everybody's.
            "HOME": str(folder),
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
            **warm.put_into(tools),
            "PATH": os.pathsep.join(map(str, places)),
            **named,
        },
        pass_fds=(warm.descriptor,),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}\n{last_printed(folder)}"


def last_printed(folder: Path) -> str:
    """What the last of the commands printed whose output is compared."""
    printed = sorted(folder.glob("printed-*"), key=lambda path: int(path.name.split("-")[1]))
    return printed[-1].read_text() if printed else ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_does_what_it_shows(document: Path, tmp_path: Path) -> None:
    text = document.read_text()
    if not HAS_SPARK and ON_SPARK.search(python_script(text) + shell_script(text)):
        pytest.skip("the extra `spark` is not installed")
    with contextlib.ExitStack() as stack:
        server = ""
        if WITH_A_BROKER in text:
            server = stack.enter_context(serving(tmp_path / "data")).url
        elif WITH_A_CLUSTER in text:
            server = stack.enter_context(running_cluster(tmp_path, 3))["node-1"].url
        if server:
            text = text.replace(USUAL_ADDRESS, server.removeprefix("http://"))
        if script := python_script(text):
            named = tmp_path / f"{document.name}.py"
            named.write_text(script)
            run([sys.executable, "-W", "error", str(named)], tmp_path, server)
        if commands := shell_script(text):
            run(["bash", "-euo", "pipefail", "-c", commands], tmp_path, server)
        for number, step in enumerate(console_steps(text)):
            printed = (tmp_path / f"printed-{number}").read_text()
            assert is_as_shown(step.output, printed), f"$ {step.command}\n{printed}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_shows_only_targets_that_exist(document: Path) -> None:
    unknown = [
        name for name in targets_shown(document.read_text()) if name not in makefile_targets()
    ]
    assert not unknown


def test_the_picture_of_a_trace_is_what_the_command_draws() -> None:
    """`make pictures` draws it anew."""
    script = ROOT / "docs" / "pictures" / "trace_picture.py"
    drawn = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert drawn.stdout == script.with_name("trace.svg").read_text(encoding="utf-8")


DOCUMENT = """
```python
x = 1
```
<!-- not run: needs a broker -->
```sh
exit 1
```
```sh
git clone somewhere && cd goqueue
make demo  # a comment
make SECONDS=5 fuzz
false
```
```python
assert x == 2
```
"""


def test_a_wrong_block_fails_under_the_line_of_its_document(tmp_path: Path) -> None:
    script = tmp_path / "document.py"
    script.write_text(python_script(DOCUMENT))
    with pytest.raises(AssertionError, match="line 16"):
        run([sys.executable, str(script)], tmp_path)


def test_a_failing_command_fails(tmp_path: Path) -> None:
    assert shell_script(DOCUMENT) == "false"
    with pytest.raises(AssertionError):
        run(["bash", "-e", "-c", shell_script(DOCUMENT)], tmp_path)


SESSION = """
```console
$ printf 'one\\ntwo 2\\nthree\\n'
one
two …
three
$ word=seen
$ echo "$word"
seen
```
"""


def test_a_console_block_runs_its_commands_in_one_shell(tmp_path: Path) -> None:
    run(["bash", "-e", "-c", shell_script(SESSION)], tmp_path)
    for number, step in enumerate(console_steps(SESSION)):
        assert is_as_shown(step.output, (tmp_path / f"printed-{number}").read_text())


def test_output_that_differs_from_a_console_block_is_found() -> None:
    shown = ("one", "two …", "three")
    assert is_as_shown(shown, "one\ntwo 2  \nthree\n")
    assert is_as_shown(("one", "…", "three"), "one\n\ntwo\nthree\n")
    assert is_as_shown(("at 2026-01-31T12:00:00.5Z",), "at 2027-02-03T04:05:06.789Z\n")
    assert not is_as_shown(("at 2026-01-31T12:00:00.5Z",), "at noon\n")
    assert not is_as_shown(shown, "one\nthree\n")
    assert not is_as_shown(shown, "one\ntwo 2\nthree\nfour\n")
    assert not is_as_shown((), "one\n")


def test_targets_are_recognised() -> None:
    assert targets_shown(DOCUMENT) == ["demo", "fuzz"]
    assert {"demo", "fuzz", "test"} <= set(makefile_targets())
