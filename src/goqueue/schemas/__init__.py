"""Schemas of messages: their registry, their languages, and which changes of them are compatible.

`SchemaRegistry` is the machine: it decides and applies changes and never parses. `SchemaChecker`
parses and compares; it is slow, so the shell runs it beside the node and reports what it found.
Pure: reads no files and fetches nothing.
"""

from goqueue.schemas.avro import AvroSchema, parse_avro
from goqueue.schemas.avro_compatibility import avro_incompatibilities
from goqueue.schemas.budget import CheckBudget, TooComplex
from goqueue.schemas.checker import SchemaChecker, content_digest
from goqueue.schemas.errors import (
    DEPTH_MAX,
    SCHEMA_BYTES_MAX,
    Incompatibility,
    SchemaInvalid,
)
from goqueue.schemas.json_compatibility import json_incompatibilities
from goqueue.schemas.json_schema import JsonDocument, parse_json_schema
from goqueue.schemas.proto import ProtoField, ProtoFile, ProtoMessage, parse_proto
from goqueue.schemas.proto_compatibility import proto_incompatibilities
from goqueue.schemas.proto_descriptor import descriptor_files, encode_descriptor
from goqueue.schemas.registry import (
    CLUSTER_LIMITS,
    VERSIONS_MAX,
    RegistryLimits,
    SchemaChange,
    SchemaCopy,
    SchemaLevelStated,
    SchemaRegistry,
    SchemaRemoved,
    SchemasNumbered,
    SchemaStated,
    SchemaVersionRemoved,
    SchemaVersionStated,
)
from goqueue.schemas.validators import create_validator

__all__ = [
    "CLUSTER_LIMITS",
    "DEPTH_MAX",
    "SCHEMA_BYTES_MAX",
    "VERSIONS_MAX",
    "AvroSchema",
    "CheckBudget",
    "Incompatibility",
    "JsonDocument",
    "ProtoField",
    "ProtoFile",
    "ProtoMessage",
    "RegistryLimits",
    "SchemaChange",
    "SchemaChecker",
    "SchemaCopy",
    "SchemaInvalid",
    "SchemaLevelStated",
    "SchemaRegistry",
    "SchemaRemoved",
    "SchemaStated",
    "SchemaVersionRemoved",
    "SchemaVersionStated",
    "SchemasNumbered",
    "TooComplex",
    "avro_incompatibilities",
    "content_digest",
    "create_validator",
    "descriptor_files",
    "encode_descriptor",
    "json_incompatibilities",
    "parse_avro",
    "parse_json_schema",
    "parse_proto",
    "proto_incompatibilities",
]
