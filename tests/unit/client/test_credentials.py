"""Keys of the SDK: where they come from, when they are sent, and what is shown of them."""

import asyncio
from pathlib import Path

import pytest

import goqueue
from goqueue import ArgumentInvalid, GoQueueError, NotAllowed, Worker
from goqueue.client.credentials import Credentials
from goqueue.client.http import Settings, Transport, get
from goqueue.client.tls import client_context
from goqueue.model import Secret
from tests.unit.client.peer import Answer, Script, json_answer, peer

KEY = "gq_" + "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERVER", "API_KEY", "API_KEY_FILE", "CA_FILE", "ALLOW_PLAINTEXT"):
        monkeypatch.delenv(f"GOQUEUE_{name}", raising=False)


def test_a_key_is_given_once() -> None:
    with pytest.raises(ArgumentInvalid, match="both given"):
        goqueue.connect("http://127.0.0.1:1", api_key="a", api_key_file="b")
    with pytest.raises(ArgumentInvalid, match="both set"):
        Credentials.of_environment({"GOQUEUE_API_KEY": "a", "GOQUEUE_API_KEY_FILE": "b"})


@pytest.mark.parametrize("content", [b"", b"\n", b"a b", b"\xff", b"a" * 5000, b"a\nb"])
def test_a_file_without_one_key_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(ArgumentInvalid) as refused:
        goqueue.connect("http://127.0.0.1:1", api_key_file=str(file))
    assert str(file) in refused.value.sentence
    assert "a b" not in refused.value.sentence.replace(str(file), "")


@pytest.mark.parametrize("host", ["192.0.2.1", "queue.example", "localhost.example"])
def test_a_key_is_not_sent_in_the_clear_to_another_machine(host: str) -> None:
    with pytest.raises(ArgumentInvalid, match="in the clear") as refused:
        goqueue.connect(f"http://{host}:8080", api_key="hush")
    assert "hush" not in str(refused.value)
    goqueue.connect(f"http://{host}:8080", api_key="hush", allow_plaintext=True)
    goqueue.connect(f"https://{host}:8080", api_key="hush")
    goqueue.connect(f"http://{host}:8080")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "127.9.9.9"])
def test_a_key_is_sent_to_this_machine(host: str) -> None:
    goqueue.connect(f"http://{host}:8080", api_key="hush")


def test_neither_a_connection_nor_a_worker_shows_its_key() -> None:
    worker = Worker("billing", server="http://127.0.0.1:1", api_key="hush")
    assert "hush" not in repr(vars(worker))
    settings = Settings(server="http://a:1", credentials=Credentials.given("hush", None))
    assert "hush" not in repr(settings)


def ask(script: Script, credentials: Credentials | None) -> object:
    async def talk() -> object:
        async with peer(script) as server:
            transport = Transport(Settings(server=server, credentials=credentials))
            try:
                return await transport.ask(get("topics"))
            finally:
                transport.close()

    return asyncio.run(talk())


REFUSED = json_answer({"error": "No.", "code": "unauthenticated", "status": 401}, status=401)


def test_a_refused_key_is_named_by_its_beginning_and_its_source() -> None:
    with pytest.raises(NotAllowed) as refused:
        ask(Script(REFUSED), Credentials(key=Secret(KEY), source="GOQUEUE_API_KEY"))
    assert refused.value.sentence == "No. The key gq_01234567… comes from GOQUEUE_API_KEY."


def test_of_a_refused_key_of_another_form_nothing_is_shown() -> None:
    with pytest.raises(NotAllowed) as refused:
        ask(Script(REFUSED), Credentials(key=Secret("hush-hush"), source="api_key"))
    assert refused.value.sentence == "No. The key comes from api_key."


def test_a_key_that_was_replaced_in_its_file_is_used_when_the_old_one_is_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "key"
    file.write_text("old")
    credentials = Credentials.given(None, str(file))
    file.write_text("new\n")
    script = Script(REFUSED, Answer())
    ask(script, credentials)
    assert [asked.headers["x-api-key"] for asked in script.asked] == ["old", "new"]


def test_a_key_file_that_did_not_change_is_not_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("old")
    script = Script(REFUSED)
    with pytest.raises(GoQueueError):
        ask(script, Credentials.given(None, str(file)))
    assert len(script.asked) == 1


def test_a_flag_of_the_environment_is_true_or_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOQUEUE_SERVER", "http://192.0.2.1:1")
    monkeypatch.setenv("GOQUEUE_API_KEY", "hush")
    monkeypatch.setenv("GOQUEUE_ALLOW_PLAINTEXT", "true")
    goqueue.connect()
    monkeypatch.setenv("GOQUEUE_ALLOW_PLAINTEXT", "yes")
    with pytest.raises(ArgumentInvalid, match="neither true nor false"):
        goqueue.connect()


@pytest.mark.parametrize("name", ["ca_file", "client_cert"])
def test_a_file_of_tls_that_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("not PEM")
    for path, words in ((broken, "cannot be used"), (tmp_path / "none", "cannot be read")):
        files = {name: str(path)}
        with pytest.raises(ArgumentInvalid, match=words):
            goqueue.connect(
                "https://localhost:1",
                ca_file=files.get("ca_file"),
                client_cert=files.get("client_cert"),
            )


def test_a_private_key_alone_is_refused() -> None:
    with pytest.raises(ArgumentInvalid, match="without client_cert"):
        goqueue.connect("https://localhost:1", client_key="/key.pem")


def test_a_client_certificate_without_its_key_is_told_where_the_key_goes(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    cert.write_text("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n")
    with pytest.raises(
        goqueue.ArgumentInvalid, match="holds no private key: give that as client_key"
    ):
        client_context(None, str(cert), None)


def test_a_client_certificate_that_is_something_else_is_told_so(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    cert.write_text("no certificate")
    with pytest.raises(ArgumentInvalid, match="cannot be used"):
        client_context(None, str(cert), None)
