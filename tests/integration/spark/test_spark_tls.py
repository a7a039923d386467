"""Spark against a node that asks for TLS, keys and client certificates."""

import contextlib
import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.certificates import NEEDS_OPENSSL, Authority, Issued
from tests.integration.server_process import ServerProcess

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = NEEDS_OPENSSL

ROOT = "the-root-key-of-these-tests-hidden"


class Secured(NamedTuple):
    """A node that requires client certificates and keys, and what its clients need."""

    port: int
    authority: Authority
    client: Issued
    key_file: Path

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        return {
            "goqueue.servers": self.url,
            "goqueue.tls.caFile": str(self.authority.ca_file),
            "goqueue.tls.certFile": str(self.client.cert),
            "goqueue.tls.keyFile": str(self.client.key),
            "goqueue.tokenFile": str(self.key_file),
            "goqueue.retries": "0",
        }

    def ask(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - as the JSON is
        context = ssl.create_default_context(cafile=str(self.authority.ca_file))
        context.load_cert_chain(self.client.cert, self.client.key)
        connection = http.client.HTTPSConnection("localhost", self.port, context=context)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {ROOT}"}
            connection.request(method, path, json.dumps(body), headers)
            answer = connection.getresponse()
            found = json.loads(answer.read())
        assert answer.status < 300, found
        return found


@pytest.fixture(name="secured", scope="module")
def secured_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("spark-tls")
    authority = Authority(home / "ca")
    issued = authority.issue(sans="DNS:localhost")
    client = authority.issue("spark", "URI:spiffe://jobs/spark", usage="clientAuth")
    key_file = home / "key"
    key_file.write_text(ROOT)
    key_file.chmod(0o600)
    flags = (
        *("--tls-enabled", "--tls-cert-file", str(issued.cert), "--tls-key-file", str(issued.key)),
        *("--tls-client-auth", "require-verify", "--tls-ca-file", str(authority.ca_file)),
        *("--auth-enabled", "--api-root-key-file", str(key_file)),
    )
    process = ServerProcess(home / "data", *flags)
    process.client_certificate = client
    process.start()
    try:
        yield Secured(int(process.url.rpartition(":")[2]), authority, client, key_file)
    finally:
        process.kill()


def values(spark: SparkSession, topic: str, options: dict[str, str]) -> list[str]:
    rows = spark.read.format("goqueue").options(**options).option("subscribe", topic).load()
    return sorted(bytes(row.value).decode() for row in rows.collect())


def test_rows_are_written_and_read_over_tls_with_a_client_certificate_and_a_key(
    spark: SparkSession, secured: Secured, name: Callable[[], str]
) -> None:
    topic = name()
    secured.ask("POST", "/topics", {"name": topic, "num_partitions": 2})
    rows = spark.createDataFrame([(str(number),) for number in range(20)], "value STRING")
    writer = rows.write.format("goqueue").options(**secured.options).option("topic", topic)
    writer.mode("append").save()

    assert values(spark, topic, secured.options) == sorted(map(str, range(20)))


def test_a_stream_copies_a_topic_over_tls_with_the_key_of_its_certificate(
    spark: SparkSession, secured: Secured, name: Callable[[], str], tmp_path: Path
) -> None:
    given = {"name": "copy", "roles": ["admin"], "certificate": "uri:spiffe://jobs/copy"}
    secured.ask("POST", "/admin/keys", given)
    own = secured.authority.issue("copy", "URI:spiffe://jobs/copy", usage="clientAuth")
    source, target = name(), name()
    for topic in (source, target):
        secured.ask("POST", "/topics", {"name": topic, "num_partitions": 1})
    messages = {"messages": [{"value": str(number)} for number in range(5)]}
    secured.ask("POST", f"/topics/{source}/messages", messages)
    options = secured._replace(client=own).options
    del options["goqueue.tokenFile"]

    reader = spark.readStream.format("goqueue").options(**options)
    rows = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
    writer = rows.select("value").writeStream.format("goqueue").options(**options)
    writer = writer.option("topic", target).option("checkpointLocation", str(tmp_path / "kept"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()

    assert values(spark, target, options) == list("01234")


@pytest.mark.parametrize(
    ("without", "instead", "said"),
    [
        (
            "goqueue.tls.caFile",
            {},
            "is not trusted: give the certificate of that authority as goqueue.tls.caFile",
        ),
        ("goqueue.tls.certFile", {}, "goqueue.tls.certFile"),
        (
            "",
            {"goqueue.servers": "https://127.0.0.1:{port}"},
            "is for localhost, not for 127.0.0.1",
        ),
        ("", {"goqueue.servers": "http://localhost:{port}"}, "use https://"),
        ("goqueue.tokenFile", {}, "goqueue.tokenFile"),
    ],
    ids=["no authority", "no certificate", "another name", "no tls", "no key"],
)
def test_what_is_wrong_is_said_in_one_sentence(
    spark: SparkSession,
    secured: Secured,
    without: str,
    instead: dict[str, str],
    said: str,
) -> None:
    dropped = {without, "goqueue.tls.keyFile"} if without == "goqueue.tls.certFile" else {without}
    options = {key: text for key, text in secured.options.items() if key not in dropped}
    options |= {key: text.format(port=secured.port) for key, text in instead.items()}
    if options["goqueue.servers"].startswith("http:"):
        options = {"goqueue.servers": options["goqueue.servers"]}

    with pytest.raises(PySparkException) as refused:
        values(spark, "orders", options)
    assert said in str(refused.value)
    assert ROOT not in str(refused.value)
