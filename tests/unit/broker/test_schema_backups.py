"""Schemas in backups: the same ids after a restore, all of them or none."""

import contextlib
from collections.abc import Iterable, Sequence

import msgspec
import pytest

from goqueue.broker.backup_state import SchemasSaved, SubjectSaved, VersionSaved
from goqueue.broker.restored_schemas import RestoredSchemas
from goqueue.model import (
    Code,
    Compatibility,
    DeleteSchema,
    DeleteSubject,
    DescribeCompatibility,
    DescribeSchema,
    FindSchemaById,
    Level,
    ListSubjects,
    ListVersions,
    Offset,
    Refused,
    RegisterSchema,
    SchemaDescription,
    SchemaReference,
    SchemaText,
    SchemaType,
    SetCompatibility,
    SubjectList,
    VersionList,
    Visible,
)
from goqueue.model.requests import (
    BackupDescription,
    BackupProgress,
    CreateBackup,
    CreateTenant,
    CreateTopic,
    DeleteTopic,
    Done,
    ListTopics,
    RestoreBackup,
    TenantDescription,
    TopicDescription,
    TopicList,
)
from goqueue.schemas import SchemaRegistry, SchemaStated
from tests.unit.broker.backup_words import back_up, describe, fresh_node, restore
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.storage.memory_files import Killed, MemoryFiles


def avro(*fields: str, name: str = "Order") -> str:
    said = [{"name": field, "type": "int", "default": 0} for field in fields]
    return msgspec.json.encode({"type": "record", "name": name, "fields": said}).decode()


def register(
    node: DrivenNode, subject: str, text: str, *references: SchemaReference
) -> SchemaDescription:
    schema = SchemaText(type=SchemaType.AVRO, text=text, references=references)
    return node.ask(RegisterSchema(subject=subject, schema=schema), SchemaDescription)


def registry_node() -> DrivenNode:
    """Subjects with references, deleted versions, levels, and an id that was given away."""
    node = DrivenNode()
    register(node, "gone", avro("x", name="Gone"))
    for is_permanent in (False, True):
        node.ask(DeleteSubject(subject="gone", is_permanent=is_permanent), VersionList)
    register(node, "address", avro("street", name="Address"))
    order = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "to", "type": "Address"}],
    }
    reference = SchemaReference(name="Address", subject="address", version=1)
    register(node, "orders-value", msgspec.json.encode(order).decode(), reference)
    register(node, "payments-value", avro("a", name="Payment"))
    register(node, "payments-value", avro("a", "b", name="Payment"))
    node.ask(DeleteSchema(subject="payments-value", version=1), VersionList)
    for subject, level in (("payments-value", Level.FULL), ("", Level.NONE)):
        node.ask(SetCompatibility(subject=subject, level=level), Compatibility)
    node.ask(CreateTopic(name="orders", partitions=1), TopicDescription)
    return node


def everything(node: DrivenNode) -> list[object]:
    subjects = node.ask(ListSubjects(visible=Visible.ALL), SubjectList).subjects
    found: list[object] = []
    for subject in subjects:
        for visible in (Visible.LIVE, Visible.DELETED):
            command = ListVersions(subject=subject, visible=visible)
            try:
                versions = node.ask(command, VersionList).versions
            except Refused:
                versions = ()
            for version in versions:
                described = DescribeSchema(subject=subject, version=version, shows_deleted=True)
                found.append((visible, node.ask(described, SchemaDescription)))
    levels = (DescribeCompatibility(subject=name) for name in ("", *subjects))
    return [*found, *(node.ask(level, Compatibility).level for level in levels)]


def ids_of(node: DrivenNode) -> list[int]:
    """The ids that stand for something, of the first ten."""
    found = []
    for id_ in range(1, 11):
        with contextlib.suppress(Refused):
            found.append(node.ask(FindSchemaById(id=id_), SchemaDescription).id)
    return found


def test_a_restore_brings_back_ids_versions_references_levels_and_what_was_deleted() -> None:
    node = registry_node()
    backup = back_up(node)
    assert backup.summary.statistics.schemas == 4
    assert [(each.subject, each.version) for each in backup.summary.schemas] == [
        ("address", 1),
        ("orders-value", 1),
        ("payments-value", 1),
        ("payments-value", 2),
    ]
    fresh = fresh_node(node)
    restored = restore(fresh, backup.summary.id)
    assert (restored.state, restored.schemas_restored) == (BackupProgress.COMPLETED, 4)
    assert everything(fresh) == everything(node)
    fresh.restart()
    assert everything(fresh) == everything(node)
    # An id that was given out is never given out again, also if nothing of it is left.
    assert register(fresh, "new", avro("y", name="New")).id == 6
    again = register(fresh, "other", avro("a", "b", name="Payment"))
    assert again.id == node.ask(FindSchemaById(id=again.id), SchemaDescription).id


def test_a_backup_without_schemas_has_none() -> None:
    node = registry_node()
    backup = back_up(node, CreateBackup(has_schemas=False))
    assert (backup.summary.statistics.schemas, backup.summary.schemas) == (0, ())
    fresh = fresh_node(node)
    assert restore(fresh, backup.summary.id).schemas_restored == 0
    assert fresh.ask(ListSubjects(visible=Visible.ALL), SubjectList).subjects == ()


def test_a_backup_of_nothing_but_schemas_is_restored() -> None:
    node = registry_node()
    command = CreateBackup(has_topics=False, has_offsets=False, has_config=False)
    backup = back_up(node, command).summary.id
    fresh = fresh_node(node)
    restored = restore(fresh, backup)
    assert (restored.topics_restored, restored.schemas_restored) == (0, 4)
    assert everything(fresh) == everything(node)


def test_what_is_registered_after_the_moment_is_not_in_the_backup() -> None:
    node = registry_node()
    before = everything(node)
    node.runs_later_turns = False
    begun = node.begin(CreateBackup())
    register(node, "late", avro("z", name="Late"))
    node.runs_later_turns = True
    node.advance(0)
    backup = node.reply(begun, BackupDescription).summary.id
    assert describe(node, backup).state is BackupProgress.COMPLETED
    fresh = fresh_node(node)
    restore(fresh, backup)
    assert everything(fresh) == before


def test_topics_come_back_to_a_node_that_has_the_same_schemas() -> None:
    node = registry_node()
    backup = back_up(node).summary.id
    node.ask(DeleteTopic(name="orders"), Done)
    before = everything(node)
    restored = restore(node, backup)
    assert (restored.state, restored.topics_restored) == (BackupProgress.COMPLETED, 1)
    assert (restored.schemas_restored, restored.skipped) == (0, 0)
    assert everything(node) == before


def test_subjects_that_were_removed_come_back_beside_those_that_stayed() -> None:
    node = registry_node()
    backup = back_up(node, CreateBackup(has_topics=False)).summary.id
    before = everything(node)
    for is_permanent in (False, True):
        node.ask(DeleteSubject(subject="payments-value", is_permanent=is_permanent), VersionList)
    assert restore(node, backup, skips_existing=True).schemas_restored == 2
    assert everything(node) == before


def other_registry(node: DrivenNode) -> DrivenNode:
    """A node with the backups of this one, whose ids mean something else."""
    other = fresh_node(node)
    for number in range(2):
        register(other, f"mine-{number}", avro("m", name=f"Mine{number}"))
    return other


def test_an_id_that_means_another_schema_ends_the_restore_and_changes_nothing() -> None:
    node = registry_node()
    backup = back_up(node).summary.id
    other = other_registry(node)
    before = everything(other)
    restored = restore(other, backup)
    assert restored.state is BackupProgress.FAILED
    assert "the schema with the id 2 is another one here" in (restored.error or "")
    assert everything(other) == before
    assert ids_of(other) == [1, 2]
    other.restart()
    assert everything(other) == before


def test_with_skip_versions_that_conflict_are_left_out_and_counted() -> None:
    node = DrivenNode()
    for number in range(3):
        register(node, f"theirs-{number}", avro("t", name=f"Theirs{number}"))
    backup = back_up(node).summary.id
    other = other_registry(node)
    restored = restore(other, backup, skips_existing=True)
    assert restored.state is BackupProgress.COMPLETED
    assert (restored.schemas_restored, restored.skipped) == (1, 2)
    assert other.ask(DescribeSchema(subject="theirs-2"), SchemaDescription).id == 3
    assert other.ask(FindSchemaById(id=1), SchemaDescription).subject == "mine-0"


def test_a_schema_whose_reference_would_mean_another_one_is_not_restored() -> None:
    node = registry_node()
    backup = back_up(node).summary.id
    other = fresh_node(node)
    register(other, "first", avro("f", name="First"))
    register(other, "address", avro("another", name="Address"))
    restored = restore(other, backup, skips_existing=True)
    assert restored.state is BackupProgress.FAILED
    assert "refers to address version 1" in (restored.error or "")


def test_a_content_whose_versions_are_all_left_out_is_left_out_too() -> None:
    node = DrivenNode()
    register(node, "first", avro("f", name="First"))
    register(node, "orders-value", avro("a"))
    backup = back_up(node).summary.id
    other = fresh_node(node)
    register(other, "orders-value", avro("mine", name="Mine"))
    restored = restore(other, backup, skips_existing=True)
    assert (restored.schemas_restored, restored.skipped) == (0, 2)
    assert ids_of(other) == [1]
    assert register(other, "next", avro("n", name="Next")).id == 3


def test_a_content_that_has_another_id_here_is_a_conflict() -> None:
    node = registry_node()
    backup = back_up(node).summary.id
    other = fresh_node(node)
    register(other, "payments-value", avro("a", "b", name="Payment"))
    restored = restore(other, backup)
    assert restored.state is BackupProgress.FAILED
    assert "is another one here" in (restored.error or "")


def test_a_subject_goes_to_the_tenant_that_it_belonged_to() -> None:
    node = DrivenNode()
    node.ask(CreateTenant(id="acme", name="Acme"), TenantDescription)
    register(node, "acme.orders-value", avro("a"))
    backup = back_up(node).summary.id
    fresh = fresh_node(node)
    assert restore(fresh, backup).state is BackupProgress.COMPLETED
    bare = back_up(node, CreateBackup(has_config=False)).summary.id
    refused = restore(fresh_node(node), bare)
    assert refused.state is BackupProgress.FAILED
    assert "belonged to the tenant acme" in (refused.error or "")


def test_a_process_that_ends_while_it_restores_schemas_leaves_all_or_none() -> None:
    node = registry_node()
    backup = back_up(node).summary.id
    content = fresh_node(node).files.copy()
    expected = everything(node)
    seen: list[int] = []
    operations, is_cut_short = 0, True
    while is_cut_short:
        files = MemoryFiles(content)
        killed = DrivenNode(files)
        files.faults.operations_left = operations
        try:
            killed.ask(RestoreBackup(backup=backup), BackupDescription)
            is_cut_short = False
        except Killed:
            pass
        after = DrivenNode(MemoryFiles(files.copy()))
        ids = ids_of(after)
        has_topic = bool(after.ask(ListTopics(), TopicList).topics)
        assert (ids, has_topic) in (([], False), ([2, 3, 4, 5], True)), operations
        if has_topic:
            assert everything(after) == expected
        else:
            assert restore(after, backup).state is BackupProgress.COMPLETED
            assert everything(after) == expected
        seen.append(len(ids))
        operations += 1
    assert {0, 4} == set(seen)
    assert operations > 10


class NoMetadata:
    """Applies what is proposed, and keeps nothing."""

    epoch = 1
    version = Offset(0)

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    def check_room(self) -> None: ...

    def propose(self, changes: Sequence[object], then: Iterable[object] = ()) -> None:
        assert not [*then]
        for change in changes:
            self._registry.apply(change)  # type: ignore[arg-type]  # nothing else comes here

    def answer(self, request: object, reply: object) -> None:
        raise AssertionError((request, reply))


def restored_schemas() -> RestoredSchemas:
    registry = SchemaRegistry()
    return RestoredSchemas(registry, NoMetadata(registry), skips=True)


CONTENT = SchemaStated(id=1, language=SchemaType.AVRO, text='"int"', digest="0" * 64)


@pytest.mark.parametrize(
    "item",
    [
        SchemasSaved(next_id=0, level=Level.NONE),
        SchemasSaved(next_id=2**40, level=Level.NONE),
        msgspec.structs.replace(CONTENT, id=0),
        msgspec.structs.replace(CONTENT, id=2**31),
        msgspec.structs.replace(CONTENT, digest="no sum"),
        msgspec.structs.replace(CONTENT, text="x" * (1 << 24)),
        SubjectSaved(name="../up"),
        SubjectSaved(name="s", versions=(VersionSaved(0, 1),)),
        SubjectSaved(name="s", versions=(VersionSaved(2, 1), VersionSaved(1, 1))),
        SubjectSaved(name="s", versions=(VersionSaved(1, 1), VersionSaved(1, 2))),
    ],
)
def test_what_no_registry_could_have_said_is_refused(
    item: SchemasSaved | SchemaStated | SubjectSaved,
) -> None:
    schemas = restored_schemas()
    with pytest.raises(Refused):
        schemas.check(item, lambda _, __: None)


def test_a_version_without_its_schema_is_refused() -> None:
    schemas = restored_schemas()
    schemas.check(SubjectSaved(name="s", versions=(VersionSaved(1, 7),)), lambda _, __: None)
    with pytest.raises(Refused) as refused:
        list(schemas.state())
    assert refused.value.code is Code.REQUEST_INVALID
