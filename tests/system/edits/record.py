"""
Records what the gate gets to see: the plans of every base and edit, and the bases' checkpoints.

``python -m tests.system.edits.record --runtime .runtimes/spark-4.3 [--missing] [--only totals pairs]
[--folder DIR]``. With both of them a unit test predicts every edit without Spark. Of the edits made at
random those are planned that were tried.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import io
import tarfile
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.system.edits.bases import BASES
from tests.system.edits.catalogue import EDITS
from tests.system.edits.edit import Base
from tests.system.edits.input import arrivals
from tests.system.edits.plans import CHECKPOINTS, Plans, names_paths, recorded_folder
from tests.system.edits.random_edits import random_edits
from tests.system.edits.recorded import Truths
from tests.system.edits.trial import PLAN_PROGRAM, Spark, Trials


def main() -> None:
    """Run the bases and read all plans."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--plans-only", action="store_true")
    parser.add_argument(
        "--only", nargs="*", default=[""], help="bases and edits whose name begins so"
    )
    parser.add_argument("--folder", type=Path, help="that of the trials; bases are not run again")
    parser.add_argument("--missing", action="store_true", help="only plans that are not there yet")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no other plan after it")
    args = parser.parse_args()
    begun = time.monotonic()
    only = tuple(args.only)
    with tempfile.TemporaryDirectory(prefix="edits-") as name:
        folder = Path(name)
        if not (args.plans_only or args.missing):
            with Spark(args.runtime) as spark:
                trials = Trials(spark, arrivals(), args.folder or folder)
                _pack({b.name: trials.old(b) for b in BASES if b.name.startswith(only)})
        with Spark(args.runtime, PLAN_PROGRAM) as spark:
            plans = Plans.of(spark.version)
            for base in BASES:
                # A file source wants to see its folder.
                arrivals().arrive(0, folder / "old" / base.name / "input")
            for name, base, source in _scripts(spark.version):
                if not name.startswith(only):
                    continue
                if args.missing and name in plans:
                    continue
                if time.monotonic() - begun > args.seconds:
                    break
                plan = plans.note(name, spark.plan(base, source, folder / "old" / base.name))
                for told in (plan.problem, *(note for one in plan.queries for note in one.notes)):
                    if told:
                        print(f"{name}: {told}", flush=True)
            plans.write()


def _scripts(version: str) -> Iterator[tuple[str, Base, str]]:
    for base in BASES:
        if base.oldest <= version:
            yield base.name, base, base.source
    tried = Truths.of(version)
    for edit in (*EDITS, *(one for one in random_edits() if one.name in tried)):
        if edit.base.oldest <= version:
            yield edit.name, edit.base, edit.source


def _pack(folders: dict[str, Path]) -> None:
    """Write the archive; of bases that are not given it keeps what it has."""
    kept = _members(folders)
    with tarfile.open(CHECKPOINTS, "w:xz") as archive:
        for member, content in kept:
            archive.addfile(member, io.BytesIO(content))
        for base, folder in folders.items():
            for path in sorted((folder / "checkpoint").rglob("*")):
                if path.is_file() and not path.name.startswith("."):
                    content = path.read_bytes()
                    if names_paths(path):
                        content = content.replace(
                            str(folder).encode(), recorded_folder(base).encode()
                        )
                    member = archive.gettarinfo(path, f"{base}/{path.relative_to(folder)}")
                    member.size = len(content)
                    archive.addfile(_without_owner(member), io.BytesIO(content))


def _members(but: Collection[str]) -> list[tuple[tarfile.TarInfo, bytes]]:
    found = []
    with tarfile.open(CHECKPOINTS) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None and member.name.partition("/")[0] not in but:
                found.append((member, content.read()))
    return found


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
