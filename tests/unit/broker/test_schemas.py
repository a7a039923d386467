"""Schemas in the node: checked beside it, durable when answered, and the same after a restart."""

from contextlib import suppress

import msgspec
import pytest

from goqueue.broker import JournalLimits
from goqueue.model import (
    MILLISECOND,
    Caller,
    CheckCompatibility,
    Code,
    Compatibility,
    CompatibilityChecked,
    DeleteSchema,
    DeleteSubject,
    DescribeCompatibility,
    DescribeRegistry,
    DescribeSchema,
    FindSchema,
    FindSchemaById,
    Level,
    ListReferrers,
    ListSchemaUses,
    ListSubjects,
    ListVersions,
    Refused,
    RegisterSchema,
    RegistryDescription,
    ResetCompatibility,
    SchemaDescription,
    SchemaIds,
    SchemaPlaces,
    SchemaReference,
    SchemaText,
    SchemaType,
    SetCompatibility,
    SubjectList,
    VersionList,
)
from goqueue.model.requests import (
    CreateTenant,
    DeleteTenant,
    Done,
    KeyDescription,
    Role,
    TenantDescription,
)
from tests.unit.broker.driven_node import Crashed, DrivenNode, cut_off
from tests.unit.security.secrets import key_id, new_key


def _avro(*fields: str, name: str = "Order", default: bool = True) -> str:
    said = [
        {"name": field, "type": "int", **({"default": 0} if default else {})} for field in fields
    ]
    return msgspec.json.encode({"type": "record", "name": name, "fields": said}).decode()


def _schema(text: str, *references: SchemaReference) -> SchemaText:
    return SchemaText(type=SchemaType.AVRO, text=text, references=references)


def _register(
    node: DrivenNode, text: str, subject: str = "orders-value", *references: SchemaReference
) -> SchemaDescription:
    command = RegisterSchema(subject=subject, schema=_schema(text, *references))
    return node.ask(command, SchemaDescription)


def _refusal(node: DrivenNode, command: object, **how: Caller) -> Refused:
    with pytest.raises(Refused) as refused:
        node.ask(command, Done, **how)  # type: ignore[arg-type]  # any command
    return refused.value


def _place(found: SchemaDescription) -> tuple[str, int, int]:
    return found.subject, found.version, found.id


def test_the_same_content_again_has_the_same_answer() -> None:
    node = DrivenNode()
    first = _register(node, _avro("a"))
    assert _place(first) == ("orders-value", 1, 1)
    assert _register(node, _avro("a")) == first
    spaced = _avro("a").replace(",", " ,\n")
    assert _place(_register(node, spaced)) == _place(first)
    assert _place(_register(node, spaced, "other")) == ("other", 1, 1)


def test_an_incompatible_schema_is_refused_with_path_reason_and_version() -> None:
    node = DrivenNode()
    _register(node, _avro("a"))
    command = RegisterSchema(subject="orders-value", schema=_schema(_avro("a", "b", default=False)))
    refused = _refusal(node, command)
    assert refused.code is Code.SCHEMA_INCOMPATIBLE
    (message,) = refused.facts["messages"]
    assert "version 1" in message
    assert "/fields/1" in message
    assert "no default" in message
    assert node.ask(ListVersions(subject="orders-value"), VersionList).versions == (1,)


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("{", "", "not JSON"),
        ('{"type": "record", "name": "R"}', "", "fields"),
        ('{"type": "array", "items": "unknown"}', "/items", "unknown type"),
        ('"string' + " " * 300_000, "", "larger"),
        ('{"type":"array","items":' * 40 + '"int"' + "}" * 40, "/items" * 33, "deeper"),
    ],
)
def test_an_invalid_schema_is_refused_with_path_and_reason(
    text: str, path: str, reason: str
) -> None:
    node = DrivenNode()
    refused = _refusal(node, RegisterSchema(subject="s", schema=_schema(text)))
    assert refused.code is Code.SCHEMA_INVALID
    assert refused.facts.get("path", "") == path
    assert reason in refused.facts["reason"]


@pytest.mark.parametrize("name", ["a/b", "..", "", "a b", "x" * 250, "\u00e9"])
def test_a_subject_has_a_name_of_the_usual_alphabet(name: str) -> None:
    node = DrivenNode()
    command = RegisterSchema(subject=name, schema=_schema('"int"'))
    assert _refusal(node, command).code is Code.NAME_INVALID


def test_schemas_are_found_by_subject_version_content_and_id() -> None:
    node = DrivenNode()
    first, second = _register(node, _avro("a")), _register(node, _avro("a", "b"))
    _register(node, _avro("a"), "z")
    assert node.ask(ListSubjects(), SubjectList).subjects == ("orders-value", "z")
    assert node.ask(DescribeSchema(subject="orders-value"), SchemaDescription) == second
    asked = DescribeSchema(subject="orders-value", version=1)
    assert node.ask(asked, SchemaDescription) == first
    found = FindSchema(subject="orders-value", schema=_schema(" " + _avro("a")))
    assert node.ask(found, SchemaDescription) == first
    assert node.ask(FindSchemaById(id=2), SchemaDescription) == second
    places = node.ask(ListSchemaUses(id=1), SchemaPlaces).places
    assert [(each.subject, each.version) for each in places] == [("orders-value", 1), ("z", 1)]
    stats = node.ask(DescribeRegistry(), RegistryDescription)
    assert (stats.subjects, stats.schemas, stats.versions) == (2, 2, 3)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (DescribeSchema(subject="none"), Code.SUBJECT_NOT_FOUND),
        (DescribeSchema(subject="orders-value", version=9), Code.VERSION_NOT_FOUND),
        (ListVersions(subject="none"), Code.SUBJECT_NOT_FOUND),
        (FindSchemaById(id=99), Code.SCHEMA_NOT_FOUND),
        (ListSchemaUses(id=99), Code.SCHEMA_NOT_FOUND),
        (DeleteSubject(subject="none"), Code.SUBJECT_NOT_FOUND),
        (DeleteSchema(subject="orders-value", version=9), Code.VERSION_NOT_FOUND),
        (FindSchema(subject="none", schema=_schema('"int"')), Code.SUBJECT_NOT_FOUND),
        (FindSchema(subject="orders-value", schema=_schema('"int"')), Code.SCHEMA_NOT_FOUND),
        (ResetCompatibility(subject="orders-value"), Code.SUBJECT_NOT_FOUND),
        (
            DescribeCompatibility(subject="orders-value", falls_back=False),
            Code.SUBJECT_NOT_FOUND,
        ),
    ],
)
def test_what_is_not_there_is_refused_by_its_own_code(command: object, code: Code) -> None:
    node = DrivenNode()
    _register(node, _avro("a"))
    assert _refusal(node, command).code is code


def test_levels_decide_what_a_new_version_is_compared_with() -> None:
    node = DrivenNode()
    for fields in (("a",), ("a", "b"), ("b", "c")):
        _register(node, _avro(*fields, default=len(fields) > 1))
    drops_default = _schema(_avro("b", default=False))
    check = CheckCompatibility(subject="orders-value", schema=drops_default, is_whole=True)
    assert node.ask(check, CompatibilityChecked).messages == ()
    level = SetCompatibility(subject="orders-value", level=Level.BACKWARD_TRANSITIVE)
    assert node.ask(level, Compatibility).level is Level.BACKWARD_TRANSITIVE
    messages = node.ask(check, CompatibilityChecked).messages
    assert len(messages) == 1
    assert "version 1" in messages[0]
    node.ask(SetCompatibility(subject="orders-value", level=Level.NONE), Compatibility)
    assert node.ask(check, CompatibilityChecked).messages == ()
    reset = node.ask(ResetCompatibility(subject="orders-value"), Compatibility)
    assert reset.level is Level.NONE
    asked = DescribeCompatibility(subject="orders-value")
    assert node.ask(asked, Compatibility).level is Level.BACKWARD


def test_a_schema_of_an_unknown_subject_is_compatible() -> None:
    node = DrivenNode()
    check = CheckCompatibility(subject="none", schema=_schema('"int"'))
    assert node.ask(check, CompatibilityChecked).messages == ()


def test_references_are_resolved_inside_the_registry() -> None:
    node = DrivenNode()
    address = '{"type": "record", "name": "Address", "fields": []}'
    order = '{"type": "record", "name": "Order", "fields": [{"name": "to", "type": "Address"}]}'
    reference = SchemaReference(name="Address", subject="address", version=1)
    command = RegisterSchema(subject="order", schema=_schema(order, reference))
    assert _refusal(node, command).code is Code.SCHEMA_INVALID
    _register(node, address, "address")
    alone = RegisterSchema(subject="order", schema=_schema(order))
    assert _refusal(node, alone).code is Code.SCHEMA_INVALID
    registered = node.ask(command, SchemaDescription)
    asked = ListReferrers(subject="address", version=1)
    assert node.ask(asked, SchemaIds).ids == (registered.id,)
    assert _refusal(node, DeleteSubject(subject="address")).code is Code.SCHEMA_REFERENCED


def test_a_schema_cannot_refer_to_itself() -> None:
    node = DrivenNode()
    reference = SchemaReference(name="R", subject="s", version=1)
    command = RegisterSchema(subject="s", schema=_schema('"int"', reference))
    assert _refusal(node, command).code is Code.SCHEMA_INVALID


def test_a_check_leaves_the_node_free_for_others_and_keeps_the_order_of_changes() -> None:
    node = DrivenNode()
    held = node.hold_checks()
    first = node.begin(RegisterSchema(subject="s", schema=_schema(_avro("a"))))
    second = node.begin(RegisterSchema(subject="s", schema=_schema(_avro("a", "b"))))
    level = node.begin(SetCompatibility(subject="s", level=Level.NONE))
    assert node.ask(ListSubjects(), SubjectList).subjects == ()
    assert len(held) == 1
    node.release_checks()
    assert node.reply(first, SchemaDescription).version == 1
    assert node.reply(second, SchemaDescription).version == 2
    assert node.reply(level, Compatibility).level is Level.NONE


def test_a_check_begins_again_when_what_it_rests_on_has_changed() -> None:
    """The subject that it refers to goes with its tenant while it is checked."""
    node = DrivenNode()
    node.ask(CreateTenant(id="acme", name="Acme"), TenantDescription)
    _register(node, '{"type": "enum", "name": "E", "symbols": ["A"]}', "acme.a")
    reference = SchemaReference(name="E", subject="acme.a", version=1)
    held = node.hold_checks()
    command = RegisterSchema(subject="acme.b", schema=_schema('"E"', reference))
    request = node.begin(command)
    deletion = node.begin(DeleteTenant(id="acme", is_forced=True))
    for _ in range(5):
        node.advance(20 * MILLISECOND)
    node.reply(deletion, Done)
    assert len(held) == 1
    node.release_checks()

    with pytest.raises(Refused) as refused:
        node.reply(request, SchemaDescription)
    assert refused.value.code is Code.SCHEMA_INVALID
    assert node.ask(ListSubjects(), SubjectList).subjects == ()


def test_a_client_that_leaves_registers_nothing() -> None:
    node = DrivenNode()
    node.hold_checks()
    first = node.begin(RegisterSchema(subject="s", schema=_schema(_avro("a"))))
    second = node.begin(RegisterSchema(subject="s", schema=_schema(_avro("b"))))
    node.leave(first)
    node.leave(second)
    node.release_checks()
    assert node.ask(ListSubjects(), SubjectList).subjects == ()
    assert _register(node, _avro("a"), "s").id == 1


def test_everything_is_the_same_after_a_restart_with_and_without_snapshots() -> None:
    node = DrivenNode(limits=JournalLimits(snapshot_bytes=500, restate_bytes=1500, turn_units=5))
    for number in range(12):
        _register(node, _avro(*(f"f{each}" for each in range(number))), f"s{number % 3}")
    node.ask(DeleteSchema(subject="s1", version=1), VersionList)
    node.ask(DeleteSubject(subject="s2"), VersionList)
    node.ask(DeleteSubject(subject="s2", is_permanent=True), VersionList)
    node.ask(SetCompatibility(level=Level.FULL), Compatibility)
    expected = _everything(node)
    for without_snapshots in (False, True):
        twin = node.twin(without_snapshots=without_snapshots)
        assert _everything(twin) == expected
        assert _register(twin, '"string"', "new").id == 13


def _everything(node: DrivenNode) -> list[object]:
    told: list[object] = [node.ask(ListSubjects(), SubjectList)]
    for id_ in range(1, 13):
        try:
            told.append(node.ask(FindSchemaById(id=id_), SchemaDescription))
        except Refused as refused:
            told.append(refused.code)
    return [*told, node.ask(DescribeCompatibility(), Compatibility)]


def test_a_crash_between_registering_and_answering_keeps_the_id_or_nothing() -> None:
    """Whatever the disk had: asked again, the schema has one id, and no other content has it."""
    for point in range(12):
        node = DrivenNode()
        _register(node, _avro("a"))
        node.crash_before = cut_off(point)
        answered = None
        with suppress(Crashed):
            answered = _register(node, _avro("a", "b")).id
        node.restart()
        assert _register(node, _avro("x"), "other").id in {2, 3}
        again = _register(node, _avro("a", "b"))
        assert again.version == 2
        assert answered in {None, again.id}
        assert node.ask(FindSchemaById(id=1), SchemaDescription).version == 1
        if answered is not None:
            return
    raise AssertionError("no crash came late enough")


def test_a_producer_registers_for_its_tenant_alone_and_a_reader_registers_nothing() -> None:
    node = DrivenNode()
    for number, role in ((1, Role.PRODUCER), (2, Role.READONLY)):
        node.ask(new_key(number, role=role), KeyDescription)
    producer, reader = Caller(key_id(1)), Caller(key_id(2))
    command = RegisterSchema(subject="orders-value", schema=_schema('"int"'))
    assert node.ask(command, SchemaDescription, caller=producer).id == 1
    assert _refusal(node, command, caller=reader).code is Code.PERMISSION_DENIED
    level = SetCompatibility(level=Level.NONE)
    assert _refusal(node, level, caller=producer).code is Code.PERMISSION_DENIED
    assert node.ask(FindSchemaById(id=1), SchemaDescription, caller=reader).id == 1


def test_names_of_the_broker_have_no_schemas() -> None:
    node = DrivenNode()
    command = RegisterSchema(subject="__topics-value", schema=_schema('"int"'))
    assert _refusal(node, command).code is Code.TOPIC_INTERNAL
