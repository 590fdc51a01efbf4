"""
Golden checkpoints: real ones, written by released Sparks, that lie beside the repository.

They are unpacked once in a run. A test that breaks one breaks a copy of its own
(``Golden.copy_to``), because the unpacked folders are shared by all tests.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPOSITORY

ARCHIVES = REPOSITORY.parent / "shared" / "golden"

_unpacked = tempfile.TemporaryDirectory(prefix="airflow-streaming-golden-")


class Golden(NamedTuple):
    """
    One golden checkpoint.

    :param spark: Version of the Spark that wrote it, e.g. ``4.3.0``.
    :param shape: What sort of query, e.g. ``agg_rocks``.
    :param path: Its checkpoint folder; not to be changed.
    """

    spark: str
    shape: str
    path: Path

    @property
    def name(self) -> str:
        return f"{self.spark}/{self.shape}"

    @property
    def sink(self) -> Path:
        """Folder of its file sink; ``_spark_metadata`` in it is the sink's log."""
        return self.path.parent / "sink"

    def copy_to(self, folder: Path) -> Path:
        """Copy checkpoint and sink into a folder and return the copied checkpoint."""
        copied = shutil.copytree(self.path.parent, folder, dirs_exist_ok=True)
        return Path(copied) / "checkpoint"


def golden_checkpoints() -> list[Golden]:
    """Return all golden checkpoints, by version and shape; skips the test without them."""
    found = _unpack(_archives())
    return [
        Golden(folder.parent.parent.name.removeprefix("spark-"), folder.parent.name, folder)
        for folder in found
    ]


def golden_checkpoint(spark: str, shape: str) -> Golden:
    """Return one golden checkpoint, e.g. of 4.3.0 ``agg``; skips the test without them."""
    by_name = {golden.name: golden for golden in golden_checkpoints()}
    return by_name[f"{spark}/{shape}"]


@cache
def golden_files() -> dict[str, bytes]:
    """
    Return every file of the golden checkpoints and sinks, by its path in the archive.

    For tests of parsers: nothing is unpacked. Hadoop's hidden files are left out. Skips the test
    without the golden checkpoints.
    """
    found = {}
    for packed in _archives():
        with tarfile.open(packed) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isfile() else None
                if file is not None and not Path(member.name).name.startswith("."):
                    found[member.name] = file.read()
    return found


def golden_sources() -> Path:
    """Return the folder that holds what the file sources of the golden checkpoints read."""
    golden_checkpoints()
    return Path(_unpacked.name) / "sources"


def _archives() -> tuple[Path, ...]:
    packed = tuple(sorted(ARCHIVES.glob("golden-*.tar.xz")))
    if not packed:
        pytest.skip(f"There are no golden checkpoints: {ARCHIVES} is missing or empty.")
    return packed


@cache
def _unpack(packed: tuple[Path, ...]) -> list[Path]:
    for file in packed:
        with tarfile.open(file) as archive:
            archive.extractall(_unpacked.name, filter="data")
    return sorted(Path(_unpacked.name).glob("generated/spark-*/*/checkpoint"))
