"""The page about adding a command, followed on a copy of the tree."""

from pathlib import Path

import msgspec

from tests.development.copied_tree import CopiedTree, blocks_of
from tests.integration.server_process import serving

PROGRAM = "src/goqueue/cli/program.py"
MODULE = "src/goqueue/cli/reliability.py"
LAST_ROW = '    "completion": ('


def test_a_command_is_added_by_one_file_and_one_row(tmp_path: Path) -> None:
    module, row = blocks_of("add-a-command.md")[:2]
    tree = CopiedTree.into(tmp_path / "tree")
    before = tree.texts()
    (tree.root / MODULE).write_text(module, encoding="utf-8")
    tree.insert(PROGRAM, row, before=LAST_ROW)
    after = tree.texts()
    assert {path for path in after if after[path] != before.get(path)} == {PROGRAM, MODULE}

    with serving(tmp_path / "data") as server:
        command = ("-m", "goqueue.cli", "-s", server.url, "reliability")
        shown = tree.python(*command)
        document = msgspec.json.decode(tree.python(*command, "-o", "json"))

    counted = [line.split() for line in shown.splitlines() if line.strip().endswith("0")]
    assert counted == [["acked", "0"], ["nacked", "0"], ["rejected", "0"]]
    assert document["acks_total"] == document["dlq_messages"] == 0
    assert "reliability" in tree.python("-m", "goqueue.cli", "--help")
    assert "since the node started" in tree.python("-m", "goqueue.cli", "reliability", "--help")


def test_the_list_of_commands_is_printed_without_importing_one(tmp_path: Path) -> None:
    module, row = blocks_of("add-a-command.md")[:2]
    tree = CopiedTree.into(tmp_path)
    (tree.root / MODULE).write_text("raise ImportError\n" + module, encoding="utf-8")
    tree.insert(PROGRAM, row, before=LAST_ROW)

    assert "Show how messages were settled." in tree.python("-m", "goqueue.cli", "--help")
