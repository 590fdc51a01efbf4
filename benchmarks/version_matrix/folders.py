"""Folders of runs: a checkpoint with its input and its sink, copied from step to step."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Final

from benchmarks.version_matrix.inputs import add_files

# Whatever holds absolute paths; all else is the same wherever it lies.
_WITH_PATHS: Final = (
    "checkpoint/sources/*/*",
    "checkpoint/state/*/_metadata/v2/*",
    "sink/_spark_metadata/*",
)


def prepare(folder: Path, before: Path | None, step: int) -> None:
    """Make the folder of a step: a copy of the step before, and the files that arrive."""
    shutil.rmtree(folder, ignore_errors=True)
    if before is None:
        folder.mkdir(parents=True)
    else:
        # No file of a checkpoint is ever written in place: links do.
        shutil.copytree(before, folder, copy_function=os.link)
        _move_paths(folder, before)
        _give_id(folder / "checkpoint")
    add_files(folder / "input", step)


def _move_paths(folder: Path, before: Path) -> None:
    old, new = (os.fsencode(f"{place}/") for place in (before, folder))
    for pattern in _WITH_PATHS:
        for path in list(folder.glob(pattern)):
            checksum = path.with_name(f".{path.name}.crc")
            if path.name.startswith(".") or old not in (text := path.read_bytes()):
                continue
            path.unlink()
            path.write_bytes(text.replace(old, new))
            checksum.unlink(missing_ok=True)


def _give_id(checkpoint: Path) -> None:
    """Give a copy an id of its own: a session runs no two queries of one id at a time."""
    path = checkpoint / "metadata"
    path.unlink()
    path.write_text(json.dumps({"id": str(uuid.uuid4())}), encoding="utf-8")
    path.with_name(".metadata.crc").unlink(missing_ok=True)
