"""A real node with TLS, seen by openssl, curl, httpx, the SDK and the command line."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

import goqueue
from goqueue import GoQueueError, ServerUnreachable, TlsError
from tests.certificates import DAY, NEEDS_OPENSSL, Authority, Issued
from tests.integration.server_process import ServerProcess, serving

pytestmark = NEEDS_OPENSSL

WAIT_S = 30.0


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue()


def flags(issued: Issued, *more: str) -> tuple[str, ...]:
    return ("--tls-enabled", "--tls-cert-file", issued.cert, "--tls-key-file", issued.key, *more)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, issued: Issued) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("node") / "data", *flags(issued)) as process:
        yield process


def address(node: ServerProcess) -> str:
    return node.url.partition("://")[2].replace("127.0.0.1", "localhost")


def s_client(node: ServerProcess, authority: Authority, *options: str, typed: str = "Q\n") -> str:
    """What openssl says about a connection."""
    ran = subprocess.run(
        ["openssl", "s_client", "-connect", address(node), "-CAfile", authority.ca_file, *options],
        input=typed,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    return ran.stdout + ran.stderr


# ---- openssl ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_tls_1_2_and_1_3_are_spoken(
    node: ServerProcess, authority: Authority, version: str
) -> None:
    assert "Verify return code: 0 (ok)" in s_client(node, authority, version)


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_older_versions_are_refused(
    node: ServerProcess, authority: Authority, version: str
) -> None:
    said = s_client(node, authority, version, "-cipher", "ALL:@SECLEVEL=0")
    assert "no peer certificate available" in said


@pytest.mark.parametrize("cipher", ["AES128-SHA", "ECDHE-ECDSA-AES128-SHA", "NULL", "aNULL"])
def test_weak_suites_are_refused(node: ServerProcess, authority: Authority, cipher: str) -> None:
    said = s_client(node, authority, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0")
    assert "no peer certificate available" in said


def test_suites_with_forward_secrecy_are_spoken(node: ServerProcess, authority: Authority) -> None:
    said = s_client(node, authority, "-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384")
    assert "ECDHE-ECDSA-AES256-GCM-SHA384" in said
    assert "Compression: NONE" in said


def test_http_1_1_is_negotiated_and_nothing_else(node: ServerProcess, authority: Authority) -> None:
    assert "ALPN protocol: http/1.1" in s_client(node, authority, "-alpn", "h2,http/1.1")
    assert "No ALPN negotiated" in s_client(node, authority, "-alpn", "h2")


def test_another_server_name_gets_the_same_certificate(
    node: ServerProcess, authority: Authority
) -> None:
    shown = [
        part_of(s_client(node, authority, *name), "BEGIN CERTIFICATE", "END CERTIFICATE")
        for name in ((), ("-servername", "elsewhere.example"), ("-noservername",))
    ]
    assert len(set(shown)) == 1


def part_of(text: str, first: str, last: str) -> str:
    return text[text.index(first) : text.index(last)]


def test_sessions_are_resumed(node: ServerProcess, authority: Authority) -> None:
    assert "Reused, TLSv1.2" in s_client(node, authority, "-tls1_2", "-reconnect")


def test_renegotiation_is_refused(node: ServerProcess, authority: Authority) -> None:
    said = s_client(node, authority, "-tls1_2", typed="R\nQ\n")
    assert "RENEGOTIATING" in said
    assert "no renegotiation" in said


# ---- other clients ---------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing")
def test_curl_verifies_and_reads(node: ServerProcess, authority: Authority) -> None:
    url = f"https://{address(node)}/version"

    def curl(*options: str) -> subprocess.CompletedProcess[str]:
        command = ["curl", "-sS", *options, url]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert '"version"' in curl("--cacert", str(authority.ca_file)).stdout
    assert curl().returncode == 60, "an authority that it does not know"


def test_httpx_publishes_and_reads(node: ServerProcess, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    with httpx.Client(base_url=f"https://{address(node)}", verify=context) as client:
        client.post("/topics", json={"name": "over-tls", "num_partitions": 1}).raise_for_status()
        large = "x" * 900_000
        body = {"messages": [{"value": large}, {"value": "two"}]}
        client.post("/topics/over-tls/messages", json=body).raise_for_status()
        page = client.get("/topics/over-tls/partitions/0/messages").json()
        assert [len(each["value"]) for each in page["messages"]] == [900_000, 3]


def test_the_pages_of_this_origin_are_those_over_https(
    node: ServerProcess, authority: Authority
) -> None:
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    with httpx.Client(base_url=f"https://{address(node)}", verify=context) as client:
        for scheme, status in (("https", 200), ("http", 403)):
            origin = f"{scheme}://{address(node)}"
            assert client.get("/version", headers={"Origin": origin}).status_code == status


def test_the_sdk_speaks_tls_with_and_without_await(
    node: ServerProcess, authority: Authority
) -> None:
    url = f"https://{address(node)}"

    async def main() -> None:
        async with goqueue.connect(url, ca_file=str(authority.ca_file)) as q:
            await q.topics.create("sdk", partitions=1)
            for number in range(100):
                await q.publish("sdk", f"{number}")

    asyncio.run(main())
    with goqueue.connect_sync(url, ca_file=str(authority.ca_file)) as q:
        page = q.page("sdk", 0, offset=0)
        assert len(page.messages) == 100


def test_the_environment_names_the_server_and_its_authority(
    node: ServerProcess, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOQUEUE_SERVER", f"https://{address(node)}")
    monkeypatch.setenv("GOQUEUE_CA_FILE", str(authority.ca_file))
    with goqueue.connect_sync() as q:
        assert q.version().version == goqueue.__version__


def goqueue_cli(*arguments: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "goqueue.cli", *arguments],
        input=typed,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def test_the_command_line_speaks_tls_and_reads_a_key_from_standard_input(
    node: ServerProcess, authority: Authority
) -> None:
    server = ("-s", f"https://{address(node)}")
    trusted = ("--ca-file", str(authority.ca_file), "--api-key", "-")
    ran = goqueue_cli(*server, *trusted, "version", "-o", "json", typed="some-key\n")
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = goqueue_cli(*server, "topic", "list")
    assert ran.returncode == 3
    assert "issued by Test CA, which is not trusted" in ran.stderr
    ran = goqueue_cli("-s", "http://192.0.2.1:1", "--api-key", "-", "topic", "list", typed="k\n")
    assert ran.returncode == 2
    assert "in the clear" in ran.stderr


# ---- what the SDK says -----------------------------------------------------------------------


def refused(url: str, ca_file: str | None = None) -> GoQueueError:
    """The error of a connection; a retry of it would take the whole time."""
    began = time.monotonic()
    with (
        goqueue.connect_sync(url, timeout_s=WAIT_S, ca_file=ca_file) as q,
        pytest.raises(GoQueueError) as error,
    ):
        q.topics.list()
    assert time.monotonic() - began < WAIT_S / 2, "it was tried again"
    return error.value


@contextlib.contextmanager
def presented(issued: Issued) -> Iterator[str]:
    """A server with any certificate, such as no node would start with; its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.cert, issued.key)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), context.wrap_socket(peer, server_side=True) as tls:
                tls.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"https://localhost:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


@pytest.mark.parametrize(
    ("create", "words"),
    [
        (lambda ca: ca.issue(begins=-9 * DAY, ends=-DAY), "the certificate expired on 20"),
        (lambda ca: ca.issue(begins=DAY, ends=9 * DAY), "is not valid before it begins on 20"),
        (
            lambda ca: ca.issue(sans="DNS:a.example,IP:10.0.0.1"),
            "is for a.example, 10.0.0.1, not for localhost",
        ),
    ],
)
def test_a_certificate_that_is_not_accepted_is_explained_at_once(
    authority: Authority, create: Callable[[Authority], Issued], words: str
) -> None:
    with presented(create(authority)) as url:
        error = refused(url, ca_file=str(authority.ca_file))
    assert isinstance(error, TlsError)
    assert words in error.sentence
    assert not error.is_outcome_unknown


def test_an_unknown_authority_is_named(node: ServerProcess, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger", "Other CA")
    error = refused(f"https://{address(node)}", ca_file=str(stranger.ca_file))
    assert isinstance(error, TlsError)
    assert "issued by Test CA, which is not trusted" in error.sentence
    assert "ca_file" in error.sentence


def test_a_missing_intermediate_is_named(authority: Authority, tmp_path: Path) -> None:
    between = Authority(tmp_path / "between", "Intermediate CA", authority)
    issued = between.issue()
    leaf, end, _ = Path(issued.cert).read_text().partition("-----END CERTIFICATE-----\n")
    Path(issued.cert).write_text(leaf + end)
    with presented(issued) as url:
        error = refused(url, ca_file=str(authority.ca_file))
    assert isinstance(error, TlsError)
    assert "issued by Intermediate CA" in error.sentence


def test_https_to_a_plain_port_says_so(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as plain:
        error = refused(plain.url.replace("http://", "https://"))
    assert isinstance(error, TlsError)
    assert "does not speak TLS on this port: use http://" in error.sentence


def test_http_to_a_tls_port_says_so(node: ServerProcess) -> None:
    error = refused(f"http://{address(node)}")
    assert isinstance(error, TlsError)
    assert "expects TLS: use https://" in error.sentence


def test_nobody_listening_is_not_a_matter_of_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with (
        goqueue.connect_sync(f"https://127.0.0.1:{port}", timeout_s=0.2) as q,
        pytest.raises(ServerUnreachable),
    ):
        q.topics.list()


def test_verification_cannot_be_switched_off() -> None:
    anything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anything.check_hostname = False
    with pytest.raises(goqueue.ArgumentInvalid, match="cannot be switched off"):
        goqueue.connect("https://localhost:1", tls=anything)


# ---- client certificates ---------------------------------------------------------------------


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_node_that_requires_certificates_serves_their_holders_only(
    authority: Authority, issued: Issued, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    own = authority.issue("app", "URI:spiffe://prod/app", usage="clientAuth")
    revoked = authority.issue("app", "URI:spiffe://prod/app", usage="clientAuth")
    stranger = Authority(tmp_path / "stranger", "Other CA").issue("app", usage="clientAuth")
    authority.revoke(revoked)
    more = ("--tls-client-auth", "require-verify", "--tls-ca-file", authority.ca_with_crl())
    process = ServerProcess(tmp_path / "data", *flags(issued, *more))
    process.client_certificate = own
    process.start()
    url = f"https://{address(process)}"

    def trusting(certificate: Issued | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cafile=str(authority.ca_file))
        context.maximum_version = version
        if certificate is not None:
            context.load_cert_chain(certificate.cert, certificate.key)
        return context

    try:
        with goqueue.connect_sync(
            url, ca_file=str(authority.ca_file), client_cert=own.cert, client_key=own.key
        ) as q:
            assert q.topics.list() == ()
        for certificate in (None, stranger, revoked):
            with goqueue.connect_sync(url, tls=trusting(certificate), timeout_s=1) as q:
                with pytest.raises((TlsError, ServerUnreachable)) as error:
                    q.topics.list()
                assert "certificate" in error.value.sentence
        process.wait_to_say("client_auth=require-verify")
    finally:
        process.kill()


# ---- starting --------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["expired", "mismatched", "open", "missing"])
def test_a_node_with_an_unusable_certificate_exits_with_2_and_says_why(
    authority: Authority, issued: Issued, tmp_path: Path, fault: str
) -> None:
    key = tmp_path / "key.pem"
    shutil.copy(issued.key, key)
    key.chmod(0o644 if fault == "open" else 0o600)
    pairs = {
        "expired": authority.issue(begins=-9 * DAY, ends=-DAY),
        "mismatched": Issued(issued.cert, authority.issue().key),
        "open": Issued(issued.cert, str(key)),
        "missing": Issued(issued.cert, str(tmp_path / "nowhere")),
    }
    words = {
        "expired": "certificate has expired",
        "mismatched": "does not belong",
        "open": "every user of the machine",
        "missing": "No such file",
    }
    data = ("--data-dir", str(tmp_path / "data"), "--http", "127.0.0.1:0")
    ran = goqueue_cli("serve", *data, *flags(pairs[fault]))
    assert ran.returncode == 2
    assert words[fault] in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_secret_as_a_flag_ends_the_command_and_is_not_repeated(tmp_path: Path) -> None:
    ran = goqueue_cli("serve", "--data-dir", str(tmp_path), "--api-root-key", "hush-hush")
    assert ran.returncode == 2
    assert "GOQUEUE_API_ROOT_KEY_FILE" in ran.stderr
    assert "hush-hush" not in ran.stderr


def test_a_key_in_the_environment_of_a_node_is_in_no_line_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOQUEUE_API_KEY", "canary-7fQ2")
    with serving(tmp_path / "data", "--log-level", "debug", "--log-access") as node:
        headers = {"X-API-Key": "canary-7fQ2", "Authorization": "Bearer canary-7fQ2"}
        httpx.get(f"{node.url}/version", headers=headers)
        httpx.get(f"{node.url}/nope?key=canary-7fQ2", headers=headers)
    assert "canary-7fQ2" not in node.said
    for path in (tmp_path / "data").rglob("*"):
        assert path.is_dir() or b"canary-7fQ2" not in path.read_bytes()


def test_a_development_certificate_is_all_that_a_first_try_needs(tmp_path: Path) -> None:
    flags = ("--tls-enabled", "--tls-self-signed")
    with serving(tmp_path / "data", *flags) as node:
        ca_file = str(tmp_path / "data" / "tls" / "ca.pem")
        node.wait_to_say(f"ca_file={ca_file}")
        with goqueue.connect_sync(f"https://{address(node)}", ca_file=ca_file) as q:
            q.topics.create("first")
        node.restart()
        with goqueue.connect_sync(f"https://{address(node)}", ca_file=ca_file) as q:
            assert q.topics.list() == ("first",)


# ---- reload ----------------------------------------------------------------------------------


def swap(pair: Issued, source: Issued) -> None:
    for path, new in zip(pair, source, strict=True):
        temporary = Path(f"{path}.new")
        shutil.copy(new, temporary)
        temporary.chmod(0o600)
        os.replace(temporary, path)


def reload_under_load(authority: Authority, tmp_path: Path, swaps: int) -> None:
    """Swap certificates while one connection stays open and others come and go."""
    sources = [authority.issue(kind=kind) for kind in ("ec", "rsa", "ec")]
    pair = Issued(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    swap(pair, sources[0])
    with serving(tmp_path / "data", *flags(pair), "--log-level", "warning") as node:
        url = f"https://{address(node)}"
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        is_over = threading.Event()
        failures: list[str] = []
        answered = [0, 0]

        def ask(number: int, client: httpx.Client) -> None:
            try:
                client.get("/version").raise_for_status()
                answered[number] += 1
            except httpx.HTTPError as error:
                failures.append(repr(error))

        def stay() -> None:
            with httpx.Client(base_url=url, verify=context) as client:
                while not is_over.is_set():
                    ask(0, client)

        def come_and_go() -> None:
            while not is_over.is_set():
                with httpx.Client(base_url=url, verify=context) as client:
                    ask(1, client)

        threads = [threading.Thread(target=each) for each in (stay, come_and_go)]
        for thread in threads:
            thread.start()
        shown = set()
        try:
            for number in range(1, swaps + 1):
                swap(pair, sources[number % len(sources)])
                wanted = ssl.PEM_cert_to_DER_cert(Path(pair.cert).read_text())
                node.signal(signal.SIGHUP)
                deadline = time.monotonic() + WAIT_S
                while certificate_of(url) != wanted:
                    assert time.monotonic() < deadline, f"swap {number} was not seen"
                shown.add(wanted)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        assert failures == []
        assert min(answered) > 0
        assert len(shown) == len(sources)
        metrics = httpx.get(f"{url}/metrics", verify=context).text
        assert "goqueue_tls_reload_errors_total 0" in metrics


def certificate_of(url: str) -> bytes:
    host, _, port = url.partition("://")[2].partition(":")
    pem = ssl.get_server_certificate((host, int(port)), timeout=WAIT_S)
    return ssl.PEM_cert_to_DER_cert(pem)


def test_certificates_are_swapped_under_load_without_an_error(
    authority: Authority, tmp_path: Path
) -> None:
    reload_under_load(authority, tmp_path, swaps=50)


@pytest.mark.long
def test_a_thousand_swaps_under_load(authority: Authority, tmp_path: Path) -> None:
    reload_under_load(authority, tmp_path, swaps=1000)


def test_a_reload_that_fails_is_logged_and_counted_and_the_node_serves(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    pair = Issued(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"))
    swap(pair, issued)
    with serving(tmp_path / "data", *flags(pair)) as node:
        url = f"https://{address(node)}"
        before = certificate_of(url)
        Path(pair.cert).write_text("half of a cert")
        node.signal(signal.SIGHUP)
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        deadline = time.monotonic() + WAIT_S
        while (
            "goqueue_tls_reload_errors_total 1"
            not in httpx.get(f"{url}/metrics", verify=context).text
        ):
            assert time.monotonic() < deadline
        assert certificate_of(url) == before
        audit = f"{url}/topics/__audit/partitions/0/messages?offset=0"
        while "tls.reload" not in (shown := httpx.get(audit, verify=context).text):
            assert time.monotonic() < deadline, shown
        node.wait_to_say("tls_reload_failed")
