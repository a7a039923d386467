"""Canaries: secrets that are used everywhere, and must then be found nowhere.

A node with every kind of log and export is given secrets in all the ways there are, the right ones
and the wrong ones. Afterwards its files, its logs, its spans, its answers, its arguments and those
of the command line are searched for each.
"""

import base64
import contextlib
import http.client
import os
import pickle
import resource
import signal
import subprocess
import sys
import tarfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import goqueue
from goqueue.model import KEY_RANDOM_BYTES, Secret, is_key_text, key_text
from tests.certificates import NEEDS_OPENSSL, Authority
from tests.integration.program import Program
from tests.integration.server_process import COLD, ServerProcess

ROOT = "canary-of-the-root-key-" + "r" * 20
WRONG = key_text(b"a key that nobody has".ljust(KEY_RANDOM_BYTES, b"!"))
# Each failed attempt of an address is answered later than the one before.
ADDRESSES = (f"127.0.1.{number}" for number in range(1, 250))


class Scene(NamedTuple):
    """Where secrets were used, and which."""

    home: Path
    secrets: tuple[str, ...]
    texts: dict[str, bytes]


def raw(server: ServerProcess, target: str, *headers: tuple[str, str]) -> bytes:
    """An answer, headers and all, to a request that may have a header twice."""
    address = server.url.removeprefix("http://")
    source = (next(ADDRESSES), 0)
    connection = http.client.HTTPConnection(address, timeout=60, source_address=source)
    with contextlib.closing(connection):
        connection.putrequest("GET", target)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return str(answer.getheaders()).encode() + answer.read()


def misplaced(server: ServerProcess, secret: str) -> Iterator[bytes]:
    """A secret wherever somebody may put it by mistake."""
    basic = base64.b64encode(f"user:{secret}".encode()).decode()
    yield raw(server, "/topics", ("Authorization", f"Bearer {secret}x"))
    yield raw(server, "/topics", ("Authorization", f"Basic {basic}"))
    yield raw(server, "/topics", ("Authorization", secret))
    yield raw(server, "/topics", ("X-API-Key", secret), ("X-API-Key", secret))
    yield raw(server, f"/topics?api_key={secret}")
    yield raw(server, f"/topics?api_key={secret}", ("X-API-Key", ROOT))
    yield raw(server, "/topics", ("Cookie", f"key={secret}"), ("X-API-Key", ROOT))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    home = tmp_path_factory.mktemp("canary")
    root_file, key_file = home / "root.key", home / "app.key"
    root_file.write_text(ROOT)
    root_file.chmod(0o600)
    server = ServerProcess(
        home / "data",
        *("--auth-enabled", "--api-root-key-file", str(root_file)),
        *("--log-level", "debug", "--log-access"),
        *("--tracing-exporters", "file"),
        program=COLD,
    )
    texts: dict[str, bytes] = {}
    server.start()
    try:
        program = Program(server.url, home)
        admin = ("--api-key-file", str(root_file))
        program.do(*admin, "topic", "create", "orders")
        created = program.do(*admin, "key", "create", "app", "--role", "producer", "-o", "json")
        secret, key_id = str(created.json()["key"]), str(created.json()["id"])
        rotated = program.do(*admin, "key", "rotate", key_id, "--grace", "1h", "-o", "json")
        newer = str(rotated.json()["key"])
        secrets = (ROOT, WRONG, secret, newer)
        key_file.write_text(newer)
        key_file.chmod(0o600)
        for each in secrets:
            for number, answer in enumerate(misplaced(server, each)):
                texts[f"answer {number} to {each[:8]}"] = answer
        with goqueue.connect_sync(server.url, api_key=secret) as q:
            q.publish("orders", b"a message")
            texts["repr of the client"] = repr(vars(q)).encode() + repr(q).encode()
            with pytest.raises(goqueue.GoQueueError) as refused:
                q.topics.delete("orders")
            texts["refusal"] = "".join(traceback.format_exception(refused.value)).encode()
        texts["error of a wrong key"] = wrong_key(server)
        with program.talk("--api-key-file", str(key_file), "produce", "orders", "-f", "-") as talk:
            arguments = Path(f"/proc/{talk.process.pid}/cmdline").read_bytes()
            texts["arguments of the program"] = arguments
            talk.write(b"one\n")
            talk.process.stdin.close()  # type: ignore[union-attr]  # it is a pipe
            talk.process.wait(60)
        for number, command in enumerate(COMMANDS):
            finished = program.run(*admin, *command)
            texts[f"command {number}"] = finished.out + finished.err.encode()
        texts |= support_bundle(program, admin, home / "support.tar.gz")
        texts["arguments of the node"] = server.arguments
        server.stop()
    finally:
        server.kill()
    texts["log"] = server.said.encode()
    for path in (home / "data", home / ".goqueue"):
        for file in path.rglob("*"):
            if file.is_file():
                texts[str(file.relative_to(home))] = file.read_bytes()
    return Scene(home, secrets, texts)


def support_bundle(program: Program, admin: tuple[str, str], path: Path) -> dict[str, bytes]:
    """Every file of the bundle that operators send to others."""
    program.run(*admin, "doctor", "--bundle", str(path))
    with tarfile.open(path) as archive:
        files = {each.name: archive.extractfile(each) for each in archive.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


COMMANDS = (
    ("config", "show"),
    ("key", "list", "-o", "json"),
    ("audit", "--limit", "1000", "-o", "json"),
    ("whoami",),
    ("context", "set", "canary", "--api-key-file", "app.key"),
    ("context", "show", "canary"),
    ("consume", "__audit", "-n", "1000"),
    ("trace", "list"),
    ("doctor",),
)


def wrong_key(server: ServerProcess) -> bytes:
    with (
        goqueue.connect_sync(server.url, api_key=WRONG) as q,
        pytest.raises(goqueue.GoQueueError) as refused,
    ):
        q.topics.list()
    return "".join(traceback.format_exception(refused.value)).encode()


def test_no_secret_is_in_a_file_a_log_a_span_an_answer_or_an_argument(scene: Scene) -> None:
    assert len(scene.texts["log"]) > 1000
    assert any("spans" in name for name in scene.texts), "spans were exported"
    assert any("__audit" in name for name in scene.texts)
    assert any(name.startswith("goqueue-support/") for name in scene.texts)
    for secret in scene.secrets:
        text = secret.encode()
        # In no encoding that a log or a journal may use, and not even half of it.
        forms = [text[len(text) // 2 :], text[:32], text.hex().encode()]
        forms.append(base64.b64encode(text)[:-4])
        if is_key_text(secret):
            forms.append(bytes.fromhex(secret.removeprefix("gq_")))
        for name, content in scene.texts.items():
            assert not [form for form in forms if form in content], (name, secret[:11])


def test_a_refused_key_is_named_by_its_first_characters_only(scene: Scene) -> None:
    assert WRONG[:11].encode() in scene.texts["error of a wrong key"]
    assert WRONG[:16].encode() not in scene.texts["error of a wrong key"]


def test_a_secret_of_the_client_is_neither_shown_encoded_nor_pickled() -> None:
    secret = Secret(WRONG)
    assert WRONG not in repr(secret) + str(secret) + f"{secret}"
    for encode in (pickle.dumps, msgspec.json.encode, msgspec.msgpack.encode):
        with pytest.raises(TypeError) as refused:
            encode(secret)
        assert WRONG not in str(refused.value)


def dumps_core(arguments: list[str], folder: Path, *, until: str = "") -> bool:
    """Whether a process that is aborted leaves a core dump, if limits allow it one."""
    folder.mkdir()
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    resource.prlimit(process.pid, resource.RLIMIT_CORE, (most, most))
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if until in line:
            break
    else:
        raise AssertionError(said)
    process.send_signal(signal.SIGABRT)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = status
    process.stdout.close()
    assert os.WIFSIGNALED(status), said
    for core in folder.glob("core*"):
        core.unlink()
    return os.WCOREDUMP(status)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can keep a process from dumping")
@pytest.mark.parametrize("secret", ["keys", pytest.param("certificate", marks=NEEDS_OPENSSL)])
def test_a_node_that_holds_secrets_leaves_no_core_dump(tmp_path: Path, secret: str) -> None:
    wait = "import time; print('ready', flush=True); time.sleep(60)"
    if not dumps_core(["-c", wait], tmp_path / "any", until="ready"):
        pytest.skip("this machine dumps no process")
    if secret == "keys":  # noqa: S105 - the kind of secret
        root_file = tmp_path / "root.key"
        root_file.write_text(ROOT)
        root_file.chmod(0o600)
        flags = ["--auth-enabled", "--api-root-key-file", str(root_file)]
    else:
        issued = Authority(tmp_path / "ca").issue()
        flags = ["--tls-enabled", "--tls-cert-file", issued.cert, "--tls-key-file", issued.key]
    flags += ["--http", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")]
    assert not dumps_core([*COLD, "serve", *flags], tmp_path / secret, until="listening on")
