"""The committed files of a sink, copied from a store."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tests.deployment.fetching import fetch_output


@pytest.fixture
def output() -> Iterator[str]:
    """A sink's folder in fsspec's memory, with two committed files and one without a commit."""
    root = f"/{uuid.uuid4().hex}/output"
    files = fsspec.filesystem("memory")
    files.pipe({f"{root}/day=1/a.parquet": b"a", f"{root}/b.parquet": b"b", f"{root}/c": b"c"})
    files.pipe(f"{root}/_spark_metadata/0", entry(root, "day=1/a.parquet"))
    files.pipe(f"{root}/_spark_metadata/1", entry(root, "b.parquet"))
    files.pipe(f"{root}/_spark_metadata/.1.tmp", b"torn")
    yield f"memory://{root}"
    files.rm(root, recursive=True)


def entry(root: str, name: str) -> bytes:
    line = {
        "path": f"memory://{root}/{name}",
        "size": 1,
        "isDir": False,
        "modificationTime": 1,
        "blockReplication": 1,
        "blockSize": 1,
        "action": "add",
    }
    return f"v1\n{json.dumps(line)}".encode()


def test_committed_files_are_copied_with_their_folders(output: str, tmp_path: Path) -> None:
    folder = fetch_output(output, tmp_path / "fetched")
    found = {
        str(file.relative_to(folder)): file.read_text()
        for file in folder.rglob("*")
        if file.is_file()
    }
    assert found == {"day=1/a.parquet": "a", "b.parquet": "b"}


def test_a_committed_file_that_is_missing_is_named(output: str, tmp_path: Path) -> None:
    fsspec.filesystem("memory").rm(f"{output.removeprefix('memory://')}/b.parquet")
    with pytest.raises(RuntimeError, match=r"b\.parquet is in the log of .* and missing"):
        fetch_output(output, tmp_path / "fetched")
