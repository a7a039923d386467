"""Contexts of listeners: which certificates are used, which are refused, how they are replaced."""

import datetime as dt
import hashlib
import os
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from goqueue.runtime.development_certificates import development_certificate, development_names
from goqueue.runtime.tls import TlsListeners, TlsUnusable, build_context
from tests.certificates import DAY, NEEDS_OPENSSL, Authority, Issued, run
from tests.unit.runtime.event_lines import EventLines

pytestmark = NEEDS_OPENSSL

ALPN = ("http/1.1",)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.issue()


def meet(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a handshake in memory; raises as the first end that fails."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=name)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    pending = [near, far]
    for _ in range(10):
        for end in list(pending):
            try:
                end.do_handshake()
                pending.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not pending
    # With TLS 1.3 a server looks at the certificate of the client after the client is done.
    near.write(b"x")
    assert far.read(1) == b"x"
    return near, far


def client_for(authority: Authority, own: Issued | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile=str(authority.ca_file))
    if own is not None:
        context.load_cert_chain(own.cert, own.key)
    return context


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_a_certificate_of_either_kind_is_rehearsed_and_served(
    authority: Authority, kind: str
) -> None:
    context, certificate = build_context(authority.issue(kind=kind).settings(), ALPN)
    near, _ = meet(context, client_for(authority))
    assert certificate.names == ("localhost", "127.0.0.1")
    assert near.version() == "TLSv1.3"
    assert certificate.sha256 == fingerprint(near)


def fingerprint(session: ssl.SSLObject) -> str:
    encoded = session.getpeercert(binary_form=True)
    assert encoded is not None
    return hashlib.sha256(encoded).hexdigest()


def test_a_chain_with_its_intermediate_is_served_whole(
    authority: Authority, tmp_path: Path
) -> None:
    between = Authority(tmp_path / "between", "Intermediate CA", authority)
    context, _ = build_context(between.issue().settings(), ALPN)
    meet(context, client_for(authority))


def test_without_its_intermediate_a_client_that_knows_only_the_root_refuses(
    authority: Authority, tmp_path: Path
) -> None:
    between = Authority(tmp_path / "between", "Intermediate CA", authority)
    issued = between.issue()
    leaf = Path(issued.cert)
    leaf.write_text(
        leaf.read_text().split("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"
    )
    context, _ = build_context(issued.settings(), ALPN)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        meet(context, client_for(authority))


@pytest.mark.parametrize(
    ("begins", "ends", "words"),
    [(-2 * DAY, -DAY, "has expired"), (DAY, 2 * DAY, "not yet valid")],
)
def test_a_certificate_that_is_not_valid_now_is_refused(
    authority: Authority, begins: dt.timedelta, ends: dt.timedelta, words: str
) -> None:
    issued = authority.issue(begins=begins, ends=ends)
    with pytest.raises(TlsUnusable, match=words):
        build_context(issued.settings(), ALPN)


def test_a_certificate_for_clients_only_is_refused(authority: Authority) -> None:
    issued = authority.issue(usage="clientAuth")
    with pytest.raises(TlsUnusable, match="purpose"):
        build_context(issued.settings(), ALPN)


def test_a_key_of_another_certificate_is_refused(authority: Authority, issued: Issued) -> None:
    other = authority.issue()
    with pytest.raises(TlsUnusable, match="does not belong to the certificate"):
        build_context(Issued(issued.cert, other.key).settings(), ALPN)


def test_a_key_of_another_kind_is_refused(authority: Authority, issued: Issued) -> None:
    """A context that is in use would take it without an error, and go on with the old pair."""
    other = authority.issue(kind="rsa")
    with pytest.raises(TlsUnusable):
        build_context(Issued(other.cert, issued.key).settings(), ALPN)


@pytest.mark.parametrize("content", [b"", b"\0\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_files_that_are_no_certificate_are_refused(
    issued: Issued, tmp_path: Path, content: bytes
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_bytes(content)
    broken.chmod(0o600)
    for pair in (Issued(str(broken), issued.key), Issued(issued.cert, str(broken))):
        with pytest.raises(TlsUnusable, match="PEM"):
            build_context(pair.settings(), ALPN)


def test_a_missing_file_is_named(issued: Issued) -> None:
    with pytest.raises(TlsUnusable, match=r"/nowhere\.pem cannot be read: No such file"):
        build_context(Issued("/nowhere.pem", issued.key).settings(), ALPN)
    with pytest.raises(TlsUnusable, match=r"/nowhere\.pem cannot be read: No such file"):
        build_context(Issued(issued.cert, "/nowhere.pem").settings(), ALPN)


def test_an_encrypted_key_is_refused_and_nobody_is_asked(issued: Issued, tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    run("ec", "-in", issued.key, "-aes128", "-passout", "pass:hush", "-out", locked)
    locked.chmod(0o600)
    with pytest.raises(TlsUnusable, match="is encrypted"):
        build_context(Issued(issued.cert, str(locked)).settings(), ALPN)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o644])
def test_a_key_that_everybody_can_use_is_refused(issued: Issued, tmp_path: Path, mode: int) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(Path(issued.key).read_bytes())
    key.chmod(mode)
    with pytest.raises(TlsUnusable, match="every user of the machine: chmod 600"):
        build_context(Issued(issued.cert, str(key)).settings(), ALPN)


def test_a_key_that_its_group_can_read_is_used_with_a_warning(
    issued: Issued, tmp_path: Path
) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(Path(issued.key).read_bytes())
    key.chmod(0o640)
    lines = EventLines()
    TlsListeners(Issued(issued.cert, str(key)).settings(), lines.log).context_of("http", ALPN)
    assert lines.names() == ["tls_enabled", "tls_key_exposed"]


def test_a_key_may_be_behind_a_link(issued: Issued, tmp_path: Path) -> None:
    link = tmp_path / "link.pem"
    link.symlink_to(issued.key)
    build_context(Issued(issued.cert, str(link)).settings(), ALPN)


# Clients


@pytest.mark.parametrize("policy", ["require", "require-verify", "verify", "request", "none"])
def test_client_certificates_are_verified_by_each_policy(
    authority: Authority, issued: Issued, tmp_path: Path, policy: str
) -> None:
    stranger = Authority(tmp_path / "other", "Other CA")
    settings = issued.settings(ca_file=str(authority.ca_file), client_auth=policy)
    context, _ = build_context(settings, ALPN)
    known = authority.issue("billing", "URI:spiffe://prod/billing", usage="clientAuth")
    unknown = stranger.issue("billing", "URI:spiffe://prod/billing", usage="clientAuth")

    _, far = meet(context, client_for(authority, known))
    seen = far.getpeercert()
    assert bool(seen) == (policy != "none")
    if policy.startswith("require"):
        with pytest.raises(ssl.SSLError):
            meet(context, client_for(authority))
    else:
        meet(context, client_for(authority))
    if policy == "none":
        meet(context, client_for(authority, unknown))
    else:
        with pytest.raises(ssl.SSLError):
            meet(context, client_for(authority, unknown))


def test_an_expired_and_a_revoked_client_certificate_are_refused(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    clients = Authority(tmp_path / "clients", "Client CA")
    good, bad = (clients.issue("app", usage="clientAuth") for _ in range(2))
    old = clients.issue("app", usage="clientAuth", begins=-3 * DAY, ends=-DAY)
    clients.revoke(bad)
    settings = issued.settings(ca_file=clients.ca_with_crl(), client_auth="require")
    context, _ = build_context(settings, ALPN)
    meet(context, client_for(authority, good))
    for each, words in ((bad, "revoked"), (old, "expired")):
        with pytest.raises(ssl.SSLError, match=words):
            meet(context, client_for(authority, each))


def test_authorities_without_a_certificate_are_refused(issued: Issued, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(TlsUnusable, match="no certificate"):
        build_context(issued.settings(ca_file=str(empty), client_auth="verify"), ALPN)
    with pytest.raises(TlsUnusable, match="no certificate of an authority"):
        build_context(issued.settings(ca_file=issued.cert, client_auth="verify"), ALPN)


def test_a_session_of_one_context_is_not_resumed_by_the_next(
    authority: Authority, issued: Issued
) -> None:
    first, _ = build_context(issued.settings(), ALPN)
    second, _ = build_context(issued.settings(), ALPN)
    client = client_for(authority)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    near, _ = meet(first, client)

    def resumed(server: ssl.SSLContext) -> bool:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        again = client.wrap_bio(
            to_client, to_server, server_hostname="localhost", session=near.session
        )
        far = server.wrap_bio(to_server, to_client, server_side=True)
        for end in (again, far, again, far, again):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
        return bool(again.session_reused)

    assert resumed(first)
    assert not resumed(second)


def test_the_minimum_version_can_be_raised(authority: Authority, issued: Issued) -> None:
    context, _ = build_context(issued.settings(min_version="1.3"), ALPN)
    old = client_for(authority)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        meet(context, old)


def test_session_keys_are_never_written_to_a_file(
    issued: Issued, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "keys"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    context, _ = build_context(issued.settings(), ALPN)
    meet(context, client_for(authority))
    assert not log.exists()


# Reload


def files(folder: Path, issued: Issued) -> Issued:
    """A pair that a test may replace."""
    pair = Issued(str(folder / "cert.pem"), str(folder / "key.pem"))
    replace(pair, issued)
    return pair


def replace(pair: Issued, issued: Issued) -> None:
    """Put other files in the place, as an operator or an orchestrator would."""
    for path, source in zip(pair, issued, strict=True):
        new = Path(f"{path}.new")
        new.write_bytes(Path(source).read_bytes())
        new.chmod(0o600)
        new.replace(path)


def value(tls: TlsListeners, name: str) -> float:
    (family,) = [each for each in tls.metrics() if each.name == name]
    sample = next(iter(family.samples))
    assert sample is not None
    quantity = sample[1]
    assert isinstance(quantity, int | float)
    return quantity


def test_a_changed_certificate_is_used_by_new_connections(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    pair = files(tmp_path, issued)
    lines = EventLines()
    tls = TlsListeners(pair.settings(), lines.log)
    current = tls.context_of("http", ALPN)
    before, _ = meet(current(), client_for(authority))
    assert lines.names() == ["tls_enabled"]

    tls.check()
    assert lines.names() == []
    replace(pair, authority.issue("other", "DNS:localhost,DNS:other"))
    tls.check()
    after, _ = meet(current(), client_for(authority))
    (line,) = lines.take()
    assert (line["event"], line["cause"]) == ("tls_reloaded", "change")
    assert line["sha256"] == fingerprint(after) != fingerprint(before)


def test_a_signal_reloads_files_that_look_the_same(issued: Issued, tmp_path: Path) -> None:
    lines = EventLines()
    tls = TlsListeners(files(tmp_path, issued).settings(), lines.log)
    current = tls.context_of("http", ALPN)
    before = current()
    tls.check(is_asked=True)
    assert current() is not before
    assert [line["event"] for line in lines.take()] == ["tls_enabled", "tls_reloaded"]


def test_a_reload_that_fails_keeps_the_certificate_and_is_counted(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    pair = files(tmp_path, issued)
    lines = EventLines()
    tls = TlsListeners(pair.settings(), lines.log)
    current = tls.context_of("http", ALPN)
    before = current()
    expired = authority.issue(begins=-2 * DAY, ends=-DAY)
    other = authority.issue()
    whole = Path(other.cert).read_bytes()
    bad: dict[str, Callable[[], object]] = {
        "half-written": partial(Path(pair.cert).write_bytes, whole[: len(whole) // 2]),
        "mismatched": partial(Path(pair.cert).write_bytes, whole),
        "expired": partial(replace, pair, expired),
        "missing": partial(os.unlink, pair.cert),
    }
    for number, (name, spoil) in enumerate(bad.items(), start=1):
        lines.pass_time(60)
        replace(pair, issued)
        spoil()
        lines.take()
        tls.check()
        assert lines.names() == ["tls_reload_failed"], name
        assert value(tls, "goqueue_tls_reload_errors_total") == number
        assert current() is before
        tls.check()
        assert lines.names() == [], "unchanged files are not read again"
    replace(pair, other)
    tls.check()
    assert lines.names() == ["tls_reloaded"]
    meet(current(), client_for(authority))


def test_a_folder_that_is_swapped_as_a_link_is_seen(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    """Kubernetes replaces the link to a folder, not the files in it."""
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, pair in ((old, issued), (new, authority.issue())):
        folder.mkdir()
        files(folder, pair)
    link = tmp_path / "tls"
    link.symlink_to(old)
    lines = EventLines()
    settings = Issued(str(link / "cert.pem"), str(link / "key.pem")).settings()
    tls = TlsListeners(settings, lines.log)
    tls.context_of("http", ALPN)
    later = tmp_path / "later"
    later.symlink_to(new)
    later.replace(link)
    tls.check()
    assert lines.names() == ["tls_enabled", "tls_reloaded"]


def test_an_authority_that_is_taken_out_is_no_longer_trusted(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    first, second = (Authority(tmp_path / name, name) for name in ("first", "second"))
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text(first.ca_file.read_text() + second.ca_file.read_text())
    tls = TlsListeners(
        issued.settings(ca_file=str(ca_file), client_auth="require"), EventLines().log
    )
    current = tls.context_of("http", ALPN)
    client = client_for(authority, second.issue("app", usage="clientAuth"))
    meet(current(), client)
    ca_file.write_text(first.ca_file.read_text())
    tls.check()
    with pytest.raises(ssl.SSLError):
        meet(current(), client)


def test_an_operator_is_warned_30_7_and_1_days_before_the_end_and_after_it(
    authority: Authority, tmp_path: Path
) -> None:
    pair = files(tmp_path, authority.issue(ends=60 * DAY))
    lines = EventLines()
    now = [0.0]
    tls = TlsListeners(pair.settings(), lines.log, wall_s=lambda: now[0])
    tls.context_of("http", ALPN)
    lines.take()
    now[0] = 0.0
    end_s = value(tls, "goqueue_tls_certificate_expiry_seconds")
    said = []
    for days in (40.0, 29.9, 29.0, 6.9, 6.0, 0.9, 0.5, -0.1, -5.0):
        now[0] = end_s - days * 86_400
        tls.check()
        said.append(lines.names())
        left_s = value(tls, "goqueue_tls_certificate_expiry_seconds")
        assert left_s == pytest.approx(days * 86_400)
    soon, over = ["tls_certificate_expiring"], ["tls_certificate_expired"]
    assert said == [[], soon, [], soon, [], soon, [], over, []]


def test_the_thread_reloads_when_it_is_asked_and_ends(issued: Issued, tmp_path: Path) -> None:
    lines = EventLines()
    tls = TlsListeners(files(tmp_path, issued).settings(), lines.log)
    current = tls.context_of("http", ALPN)
    before = current()
    tls.start()
    tls.request_reload()
    while current() is before:
        pass
    tls.stop()
    tls.request_reload()
    assert lines.names() == ["tls_enabled", "tls_reloaded"]


# Certificates for development


def test_a_development_certificate_is_created_private_and_reused(tmp_path: Path) -> None:
    names = development_names("127.0.0.1")
    first = development_certificate(str(tmp_path), names)
    contents = {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()}
    assert sorted(contents) == ["ca.pem", "cert.pem", "key.pem"]
    assert (tmp_path / "tls").stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "tls").iterdir())

    assert development_certificate(str(tmp_path), names) == first
    assert contents == {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()}

    context, certificate = build_context(Issued(first.cert_file, first.key_file).settings(), ALPN)
    assert {"localhost", "127.0.0.1"} <= set(certificate.names)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cafile=first.ca_file)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    for name in ("localhost", "127.0.0.1", "::1"):
        meet(context, client, name)
    verified = run("verify", "-CAfile", first.ca_file, "-purpose", "sslserver", first.cert_file)
    assert verified.strip().endswith("OK")


@pytest.mark.parametrize("spoil", ["names", "ca.pem", "cert.pem", "key.pem", "mixed"])
def test_a_development_certificate_that_does_not_fit_is_replaced(
    tmp_path: Path, spoil: str
) -> None:
    names: tuple[str, ...] = ("localhost",)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = development_certificate(str(tmp_path / "a"), names)
    other = development_certificate(str(tmp_path / "b"), names)
    if spoil == "names":
        names = ("localhost", "queue.internal")
    elif spoil == "mixed":
        Path(first.key_file).write_bytes(Path(other.key_file).read_bytes())
    else:
        (tmp_path / "a" / "tls" / spoil).write_bytes(b"half")
    again = development_certificate(str(tmp_path / "a"), names)
    assert again.sha256 != first.sha256
    _, certificate = build_context(Issued(again.cert_file, again.key_file).settings(), ALPN)
    assert set(certificate.names) == set(names)


def test_a_node_on_every_address_is_named_by_its_host_name() -> None:
    every = "0.0.0.0"  # noqa: S104 - the address that must not be a name
    assert every not in development_names(every)
    assert "queue.internal" in development_names("queue.internal")
