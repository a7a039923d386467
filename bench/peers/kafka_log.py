"""Kafka as one KRaft process that syncs every batch before its answer, and its own client.

Kafka has no line protocol that a few lines of a load generator could speak, so its own client is
measured with it: librdkafka, which batches and compresses nothing here. What a client process
spends is counted beside what the broker spends, as for every contender.

`make setup-kafka` brings the jars into `build/kafka` and confluent-kafka into `.venv`; neither is
part of an installation.
"""

import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.broker_process import Usage
from bench.dialogue import free_port
from bench.peers.contest import Sample, Watch

__all__ = ["KafkaServer"]

_JARS = Path(__file__).resolve().parents[2] / "build/kafka"
_START_S = 60.0
_FLUSH_S = 120.0
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qk"
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
log.flush.interval.messages=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class KafkaServer:
    """A broker on a free port and an empty directory; gone when the block ends."""

    name = "kafka"
    missing = "run `make setup-kafka`, which needs Java and Maven"

    def __init__(self, folder: str) -> None:
        self._data = tempfile.mkdtemp(prefix="kafka-", dir=folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @staticmethod
    def is_there() -> bool:
        has_client = importlib.util.find_spec("confluent_kafka") is not None
        return has_client and shutil.which("java") is not None and any(_JARS.glob("kafka_*.jar"))

    def __enter__(self) -> Self:
        settings = os.path.join(self._data, "server.properties")
        Path(settings).write_text(
            _SETTINGS.format(port=self.port, controller=free_port(), data=f"{self._data}/log"),
            encoding="ascii",
        )
        java = ["java", "-Xms512M", "-Xmx512M", "-cp", f"{_JARS}/*"]
        with open(os.path.join(self._data, "output"), "wb") as output:
            subprocess.run(
                [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", settings],
                stdout=output,
                stderr=output,
                check=True,
            )
            self._process = subprocess.Popen(
                [*java, "kafka.Kafka", settings], stdout=output, stderr=output
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)
        shutil.rmtree(self._data, ignore_errors=True)

    def _wait_until_ready(self) -> None:
        admin = _client().admin.AdminClient(self._settings())
        deadline = time.monotonic() + _START_S
        while True:
            try:
                admin.list_topics(timeout=1)
                return
            except _client().KafkaException:
                assert time.monotonic() < deadline, "kafka did not start in time"

    @property
    def usage(self) -> Usage:
        assert self._process is not None
        return Usage(self._process.pid)

    def _settings(self, **further: object) -> dict[str, object]:
        # What the client logs while the broker starts is expected.
        return {"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0, **further}

    def create(self, topic: str, partitions: int) -> None:
        # Kept until it has answered: what is asked ends with the one that asks.
        admin = _client().admin.AdminClient(self._settings())
        wanted = _client().admin.NewTopic(topic, partitions, 1)
        admin.create_topics([wanted])[topic].result(_START_S)
        deadline = time.monotonic() + _START_S
        while True:
            # A topic is there before its partitions have a leader.
            try:
                self._stored(topic)
                return
            except _client().KafkaException:
                assert time.monotonic() < deadline, f"{topic} got no leader in time"

    def publish(self, topic: str, value: bytes, batch: int, count: int) -> Sample:
        """Batches of `batch` messages without a key, as fast as the client sends them."""
        producer = self._producer({"batch.num.messages": batch, "linger.ms": 5})
        before = self._stored(topic)
        watch = Watch(self.usage)
        for _ in range(count):
            producer.produce(topic, value)
        assert producer.flush(_FLUSH_S) == 0, "not everything was answered"
        sample = watch.sample(count)
        assert self._stored(topic) - before == count, "not everything was stored"
        return sample

    def send(self, topic: str, value: bytes, keys: list[bytes], count: int) -> Sample:
        """A call for each message with a key, and a report of each; gathered as by default."""
        producer = self._producer({})
        failed: list[object] = []
        reported = 0

        def report(error: object, _message: object) -> None:
            nonlocal reported
            reported += 1
            if error is not None:
                failed.append(error)

        watch = Watch(self.usage)
        for number in range(count):
            producer.produce(topic, value, keys[number % 1000], on_delivery=report)
        producer.flush(_FLUSH_S)
        sample = watch.sample(count)
        assert reported == count, f"{count - reported} messages were not answered"
        assert not failed, failed[0]
        return sample

    def read(self, topic: str, partitions: int, count: int) -> Sample:
        """A whole topic from its start, as messages of the client."""
        settings = {"group.id": "readers", "enable.auto.commit": False}
        consumer = _client().Consumer(self._settings(**settings))
        consumer.assign(
            [_client().TopicPartition(topic, number, 0) for number in range(partitions)]
        )
        watch = Watch(self.usage)
        left = count
        while left > 0:
            # It waits until it has as many as it is asked for.
            left -= len(consumer.consume(min(left, 10_000), _START_S))
        sample = watch.sample(count)
        consumer.close()
        return sample

    def _stored(self, topic: str) -> int:
        """How many messages a topic has."""
        consumer = _client().Consumer(self._settings(**{"group.id": "counters"}))
        partitions = consumer.list_topics(topic, _START_S).topics[topic].partitions
        ends = [
            consumer.get_watermark_offsets(_client().TopicPartition(topic, number), _START_S)[1]
            for number in partitions
        ]
        consumer.close()
        return sum(ends)

    def _producer(self, settings: dict[str, object]) -> Any:  # noqa: ANN401 - it has no types
        # The bound of the queue in messages is out of the way: that in bytes is 1 GiB.
        return _client().Producer(
            self._settings(acks="all", **{"queue.buffering.max.messages": 0, **settings})
        )


def _client() -> Any:  # noqa: ANN401 - the package has no types, and is imported only where it is
    client = importlib.import_module("confluent_kafka")
    importlib.import_module("confluent_kafka.admin")
    return client
