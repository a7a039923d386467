"""Looks up the schemas that reads and writes name by their subject.

A read has its schema when it is loaded: its id is kept with the column `value`, so all tasks and
all micro-batches of a query read into the same one. A write has its schema when a write or a
micro-batch begins.
"""

import msgspec
from pyspark.sql.types import StructType

from goqueue.client import GoQueueError
from goqueue.client.schemas import SchemaSet
from goqueue.spark.broker import broker
from goqueue.spark.columns import ColumnInvalid, schema_id_of
from goqueue.spark.derived_schemas import derive_schema
from goqueue.spark.options import Link, OptionInvalid, RegistryOptions
from goqueue.spark.read_options import ReadOptions
from goqueue.spark.registered_values import ValueSchema, language_of
from goqueue.spark.value_forms import Unmappable
from goqueue.spark.write_options import WriteOptions

__all__ = ["check_written", "with_derived", "with_schema", "written_schema"]


def with_schema(options: ReadOptions, given: StructType | None = None) -> ReadOptions:
    """The options with the schema of their subject: the one that `given` was made from, if any."""
    decoding = options.shape.decoding
    if decoding is None or decoding.registry is None:
        return options
    registry = decoding.registry
    id_ = None if given is None else schema_id_of(given)
    if id_ is None:
        found = _of_subject(options.link, registry)
    else:
        known = broker(options.link).schema(id_)
        if known is None:
            raise OptionInvalid("schemaSubject", f"schema {id_} was deleted since it was loaded")
        found = known
    registered = _value_schema(registry, found)
    try:
        registered.kind()
    except Unmappable as error:
        raise OptionInvalid("schemaSubject", f"{registry.subject}: {error}") from error
    decoding = msgspec.structs.replace(decoding, registered=registered)
    shape = msgspec.structs.replace(options.shape, decoding=decoding)
    return msgspec.structs.replace(options, shape=shape)


def with_derived(options: WriteOptions, schema: StructType) -> WriteOptions:
    """The options of a write with the schema that is made from its column, if one is."""
    if options.registry is None or not options.registers:
        return options
    language = language_of(options.registry.value_format)
    try:
        derived = derive_schema(language, schema["value"].dataType)
    except Unmappable as error:
        raise ColumnInvalid("value", str(error)) from error
    return msgspec.structs.replace(options, derived=derived)


def check_written(options: WriteOptions, schema: StructType) -> WriteOptions:
    """Refuse a column that the schema does not allow; the options with what was looked up."""
    registry = options.registry
    if registry is None:
        return options
    if options.derived is not None:
        language = language_of(registry.value_format)
        try:
            conflicts = broker(options.link).schema_conflicts(
                registry.subject, options.derived, language
            )
        except GoQueueError as error:
            if error.code != "schema_invalid":
                raise
            conflicts = (error.sentence,)
        if conflicts:
            words = f"{registry.subject} does not take the schema of the column"
            raise OptionInvalid("registerSchema", f"{words}: {'; '.join(conflicts)[:500]}")
        return options
    registered = _value_schema(registry, _of_subject(options.link, registry))
    try:
        registered.check(schema["value"].dataType)
    except Unmappable as error:
        raise ColumnInvalid("value", f"{error} (subject {registry.subject})") from error
    return msgspec.structs.replace(options, registered=registered)


def written_schema(options: WriteOptions) -> ValueSchema | None:
    """The schema that a task encodes with; None if it does not encode."""
    registry = options.registry
    if registry is None or options.registered is not None:
        return options.registered
    if options.derived is None:
        return _value_schema(registry, _of_subject(options.link, registry))
    language = language_of(registry.value_format)
    found = broker(options.link).register_schema(registry.subject, options.derived, language)
    return _value_schema(registry, found)


def _of_subject(link: Link, registry: RegistryOptions) -> SchemaSet:
    found = broker(link).subject_schema(registry.subject, registry.version)
    if found is None:
        version = "" if registry.version is None else f" with a version {registry.version}"
        words = f"there is no subject {registry.subject!r}{version}"
        raise OptionInvalid("schemaSubject", words)
    return found


def _value_schema(registry: RegistryOptions, found: SchemaSet) -> ValueSchema:
    language = language_of(registry.value_format)
    if found.schema_type != language:
        words = f"{registry.subject!r} is {found.schema_type}, not {registry.value_format}"
        raise OptionInvalid("schemaSubject", words)
    return ValueSchema(language=language, schema=found, message=registry.message)
