"""What the command line makes of errors of the client."""

from goqueue import GoQueueError, ServerUnreachable, TlsError
from goqueue.cli.errors import as_failure
from goqueue.model import key_text


def test_a_key_that_is_refused_is_told_by_where_it_came_from() -> None:
    key = key_text(bytes(28))
    client = GoQueueError("unauthenticated", f"A key is needed. The key {key[:11]}… comes from K.")
    refused = as_failure(client, "https://localhost")
    assert refused.format_message() == (
        f"the server does not accept the key {key[:11]}… from K (unauthenticated); "
        "it is unknown, revoked or expired"
    )
    missing = as_failure(GoQueueError("unauthenticated", "A key is needed."), "https://localhost")
    assert "provide an API key" in missing.format_message()


def test_what_is_wrong_with_a_certificate_names_the_flag_that_mends_it() -> None:
    untrusted = TlsError("localhost:1: issued by X, which is not trusted: give it as ca_file")
    closed = ServerUnreachable("closed; it may require a client certificate (client_cert)")

    assert "give it as --ca-file" in as_failure(untrusted, "https://localhost:1").format_message()
    assert "(--client-cert)" in as_failure(closed, "https://localhost:1").format_message()


def test_a_topic_of_the_node_is_not_one_to_create() -> None:
    absent = GoQueueError(
        "topic_not_found", "It does not exist.", details={"topic": "__audit"}, status=404
    )
    told = as_failure(absent, "https://localhost", near=["audit"]).format_message()
    assert "admins of the tenant default" in told
    assert "create" not in told
    assert "did you mean" not in told
