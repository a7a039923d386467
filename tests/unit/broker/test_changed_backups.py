"""Backups that somebody changed: what they say is checked as if a stranger had written it."""

import hashlib
import json

import pytest

from goqueue.model.requests import BackupProgress, GroupList, ListGroups, ListTopics, TopicList
from tests.unit.broker.backup_words import back_up, files_of, fresh_node, restore
from tests.unit.broker.driven_node import DrivenNode
from tests.unit.broker.users import ack, create, poll, publish, read_values, shop


def _forged(node: DrivenNode, backup: str, old: bytes, new: bytes) -> DrivenNode:
    """A node with a backup whose state says something else."""
    content = files_of(node)
    path = f"backups/{backup}/state/0.json"
    assert old in content[path]
    content[path] = content[path].replace(old, new)
    manifest = json.loads(content[f"backups/{backup}/manifest.json"])
    sha = hashlib.sha256(content[path]).hexdigest()
    manifest["state"] = [{"size": len(content[path]), "sha256": sha}]
    data = json.dumps(manifest).encode()
    content[f"backups/{backup}/manifest.json"] = data
    line = f"{hashlib.sha256(data).hexdigest()}  manifest.json\n"
    content[f"backups/{backup}/manifest.json.sha256"] = line.encode()
    return fresh_node(node, content)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"floor":1', b'"floor":99'),
        (b'"floor":1', b'"floor":-1'),
        (b'"floor":1', b'"floor":1,"settled":[[2,4611686018427387904]]'),
        (b'"floor":1', b'"floor":1,"attempts":[[7,1]]'),
        (b'"floor":1', b'"floor":"x"'),
        (b'"partition":0', b'"partition":5'),
        (b'"group":"shop"', b'"group":"nobody"'),
        (b'"type":"group"', b'"type":"key"'),
        (b'"name":"shop"', b'"name":"../shop"'),
        (b'"retention_hours":168', b'"retention_hours":-99'),
        (b'"name":"orders","partitions":1', b'"name":"orders","partitions":2'),
        (b'"name":"orders"', b'"name":"__groups"'),
        (b"[{", b"[["),
    ],
)
def test_a_backup_that_says_what_cannot_be_is_refused_and_undone(old: bytes, new: bytes) -> None:
    node = shop()
    publish(node, "a", "b")
    ack(node, poll(node, count=1)[0])
    backup = back_up(node).summary.id
    other = _forged(node, backup, old, new)
    create(other, "mine")

    restored = restore(other, backup)
    assert restored.state is BackupProgress.FAILED
    assert restored.error
    for _ in range(2):
        assert other.ask(ListTopics(), TopicList).topics == ("mine",)
        assert other.ask(ListGroups(), GroupList).groups == ()
        assert not [path for path in other.files.copy() if path.startswith("restoring")]
        other.restart()
    create(other)
    assert publish(other, "c").placed[0].first == 0


def test_a_linked_segment_that_grew_after_the_backup_is_restored_as_it_was() -> None:
    """After a crash a log may go on in a segment that was sealed when it was linked."""
    node = shop()
    publish(node, "a", "b")
    backup = back_up(node).summary.id
    content = files_of(node)
    [path] = [path for path in content if path.endswith(".log")]
    other = fresh_node(node, {**content, path: content[path] + b"more"})
    assert restore(other, backup).state is BackupProgress.COMPLETED
    assert read_values(other) == ["a", "b"]
