"""The options of a sink: read once and checked as a whole, before any job starts.

Never asks a broker.
"""

from collections.abc import Mapping

import msgspec

from goqueue.spark.option_table import BATCH_WRITE, STREAM_WRITE
from goqueue.spark.options import (
    Given,
    Link,
    OptionInvalid,
    RegistryOptions,
    link_of,
    name_of,
    registry_of,
)
from goqueue.spark.registered_values import ValueSchema

__all__ = ["WriteOptions", "write_options"]

_OF_TRANSACTIONS = ("transactionalId", "transactionalVersion", "transactionTimeoutMs")


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where rows go and how. Without a topic the rows name it; the prefix is put before either.

    `topic` and `dlq_topic` have the prefix already. With `registry` the column `value` is encoded:
    with `registered` once that is looked up, or with `derived`, a text that tasks register.
    """

    link: Link
    topic: str | None
    topic_prefix: str = ""
    partitioner: str = "key-hash"
    dlq_topic: str | None = None
    exactly_once: bool = True
    transactional_id: str | None = None
    transactional_version: int | None = None
    transaction_timeout_s: float = 600.0
    registry: RegistryOptions | None = None
    registers: bool = False
    registered: ValueSchema | None = None
    derived: str | None = None


def write_options(given: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
    """The options of a sink."""
    options = Given(given, STREAM_WRITE if is_stream else BATCH_WRITE)
    identity = options.name("transactionalId")
    version = options.text("transactionalVersion")
    exactly_once = options.flag("exactlyOnce", True)
    for name in _OF_TRANSACTIONS:
        if options.text(name) is not None and not exactly_once:
            raise OptionInvalid(name, "contradicts `exactlyOnce=false`")
    if not is_stream and (version is None) is not (identity is None):
        missing = "transactionalVersion" if version is None else "transactionalId"
        raise OptionInvalid(missing, "`transactionalId` and `transactionalVersion` go together")
    if identity is not None and len(identity) > 100:
        raise OptionInvalid("transactionalId", "has at most 100 characters")
    prefix = options.name("topicPrefix") or ""
    topic, dlq_topic = (_prefixed(options, name, prefix) for name in ("topic", "dlqTopic"))
    if topic is not None and topic == dlq_topic:
        raise OptionInvalid("dlqTopic", "is the topic that is written to")
    registry, registers = _encoding(options)
    return WriteOptions(
        link=link_of(options),
        registry=registry,
        registers=registers,
        topic=topic,
        topic_prefix=prefix,
        partitioner=options.choice("partitioner", ("key-hash", "round-robin", "column")),
        dlq_topic=dlq_topic,
        exactly_once=exactly_once,
        transactional_id=identity,
        transactional_version=(
            None if version is None else options.number("transactionalVersion", 0, 0)
        ),
        transaction_timeout_s=options.number("transactionTimeoutMs", 600_000, 1000, 900_000) / 1000,
    )


def _encoding(options: Given) -> tuple[RegistryOptions | None, bool]:
    """The schema to encode with, and whether it is made from the column and registered."""
    registry = registry_of(options)
    registers = options.flag("registerSchema", False)
    if registry is None:
        if options.text("valueFormat") not in {None, "raw"}:
            raise OptionInvalid("schemaSubject", "is missing: `valueFormat` is given")
        if registers:
            raise OptionInvalid("registerSchema", "needs `schemaSubject`")
    elif registers and (registry.version is not None or registry.message is not None):
        wrong = "schemaVersion" if registry.version is not None else "messageName"
        raise OptionInvalid(wrong, "contradicts `registerSchema`: the schema is made from the rows")
    return registry, registers


def _prefixed(options: Given, option: str, prefix: str) -> str | None:
    name = options.name(option)
    return None if name is None else name_of(option, prefix + name)
