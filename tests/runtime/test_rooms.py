"""The rooms: Spark's private attributes are used in its rooms only, no module and no room is large.
import-linter checks who may import whom.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import streamjob

PACKAGE = Path(str(streamjob.__file__)).parent
ROOMS_OF_SPARK = ("runtime/spark/", "storage/", "jvm/")
# Of pyspark's objects. A class of ours that stands in for one has a handle of the same name.
PRIVATE = {
    "_jvm", "_jsc", "_jdf", "_jsq", "_jsqm", "_jsparkSession", "_jwrite", "_jreader", "_gateway", "_df",
    "_spark",
}  # fmt: skip


def private_attributes(code: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
            of_ourselves = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not of_ourselves:
                yield node.lineno, node.attr


def test_private_attributes_of_pyspark_are_used_in_the_rooms_of_spark_only() -> None:
    found = [
        f"{place}:{line} {name}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if not (place := file.relative_to(PACKAGE).as_posix()).startswith(ROOMS_OF_SPARK)
        for line, name in private_attributes(file.read_text())
    ]
    assert found == []


def test_one_is_found_where_it_is() -> None:
    assert list(private_attributes("x = 1\nplan = writer._df._jdf.queryExecution()")) == [
        (2, "_jdf"),
        (2, "_df"),
    ]
    assert list(private_attributes((PACKAGE / "runtime/spark/handles.py").read_text()))


def test_no_file_is_long() -> None:
    sizes = {
        f.relative_to(PACKAGE).as_posix(): len(f.read_text().splitlines()) for f in PACKAGE.rglob("*.py")
    }
    assert {place: size for place, size in sizes.items() if size > 600} == {}


def test_no_room_is_a_house() -> None:
    rooms = {
        folder.relative_to(PACKAGE).as_posix(): len(
            [f for f in folder.glob("*.py") if f.name != "__init__.py"]
        )
        for folder in PACKAGE.rglob("*")
        if (folder / "__init__.py").exists()
    }
    assert len(rooms) >= 25
    assert {room: size for room, size in rooms.items() if size > 12} == {}
