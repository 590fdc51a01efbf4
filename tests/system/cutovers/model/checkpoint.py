"""A modeled query's checkpoint: the small files as Spark writes them, the state in memory."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.unit.checkpoints.restoring import PLAN

COMPACT_EVERY: Final = 10
SEA: Final = "file:///sea"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """
    One batch as its checkpoint has it.

    :param watermark_ms: With what it emits and evicts.
    :param offset: Where it ends: an entry of the source's log, or a number of records.
    """

    batch: int
    watermark_ms: int
    offset: int


class ModelCheckpoint:
    """
    One query's checkpoint.

    :param folder: Where it lies.
    :param reads_files: It reads a folder of files, with a log of its own; else one partition of a
        topic.
    """

    def __init__(self, folder: Path, *, reads_files: bool) -> None:
        self.folder, self._reads_files = folder, reads_files
        self._log: dict[int, list[int]] | None = None
        self._newest: dict[str, int | None] = {}

    def query_id(self) -> str:
        """Return the query's id, a new one for an empty checkpoint."""
        file = self.folder / "metadata"
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            _put(file, json.dumps({"id": str(uuid.uuid4())}))
        return str(json.loads(file.read_text())["id"])

    def planned(self) -> int | None:
        """Return the newest planned batch."""
        return self._newest_of("offsets")

    def committed(self) -> int | None:
        """Return the newest committed batch."""
        return self._newest_of("commits")

    def plan_of(self, batch: int) -> Planned:
        """Return what was planned as a batch."""
        _, told, source = (self.folder / "offsets" / str(batch)).read_text().split("\n")[:3]
        offset = json.loads(source) if source != "-" else None
        return Planned(
            batch=batch, watermark_ms=json.loads(told)["batchWatermarkMs"], offset=_number(offset)
        )

    def next_watermark(self, batch: int) -> int:
        """Return the watermark that a committed batch left to the next one."""
        told = (self.folder / "commits" / str(batch)).read_text().split("\n")[1]
        return int(json.loads(told)["nextBatchWatermarkMs"])

    def files_of(self, plan: Planned) -> list[int]:
        """Return the files that a batch reads."""
        before = self.plan_of(plan.batch - 1).offset if plan.batch else -1
        if not self._reads_files:
            return list(range(max(before, 0), plan.offset))
        log = self.log()
        return sorted(file for entry in range(before + 1, plan.offset + 1) for file in log[entry])

    def log(self) -> dict[int, list[int]]:
        """Return the files that each entry of the source's log names."""
        if self._log is None:
            self._log = self._read_log()
        return self._log

    def forget(self) -> None:
        """Read the source's log again: somebody else may have written to it."""
        self._log, self._newest = None, {}

    def _newest_of(self, name: str) -> int | None:
        if name not in self._newest:
            self._newest[name] = _newest(self.folder / name)
        return self._newest[name]

    def read(self) -> int:
        """Return how many files were read, or are in entries of the log."""
        if self._reads_files:
            return sum(len(files) for files in self.log().values())
        newest = self.planned()
        return 0 if newest is None else self.plan_of(newest).offset

    def last_offset(self) -> int:
        """Return where the newest plan ends; of files, the newest entry of the log."""
        if self._reads_files:
            return max(self.log(), default=-1)
        return self.read()

    def log_files(self, files: list[int], now_ms: int) -> int:
        """Write the next entry of the source's log; return its number."""
        log = self.log()
        entry = max(log, default=-1) + 1
        log[entry] = files
        is_compact = (entry + 1) % COMPACT_EVERY == 0
        wanted = sorted(log) if is_compact else [entry]
        told = [_entry(number, file, now_ms) for number in wanted for file in log[number]]
        name = f"{entry}.compact" if is_compact else str(entry)
        _put(self.folder / "sources" / "0" / name, "\n".join(["v1", *told]))
        return entry

    def plan(self, plan: Planned, now_ms: int) -> None:
        """Write the plan of a batch."""
        told = {**PLAN, "batchWatermarkMs": plan.watermark_ms, "batchTimestampMs": now_ms}
        offset: dict[str, Any] = (
            {"logOffset": plan.offset} if self._reads_files else {"orders": {"0": plan.offset}}
        )
        text = "\n".join(["v1", json.dumps(told), json.dumps(offset)])
        _put(self.folder / "offsets" / str(plan.batch), text)
        self._newest["offsets"] = plan.batch

    def commit(self, batch: int, next_watermark_ms: int) -> None:
        """Write the commit of a batch."""
        told = json.dumps({"nextBatchWatermarkMs": next_watermark_ms})
        _put(self.folder / "commits" / str(batch), f"v1\n{told}")
        self._newest["commits"] = batch

    def _read_log(self) -> dict[int, list[int]]:
        folder = self.folder / "sources" / "0"
        found: dict[int, list[int]] = {}
        entries = [file for file in folder.glob("[0-9]*") if not file.name.endswith(".crc")]
        for file in sorted(entries, key=lambda file: int(file.name.split(".")[0])):
            found.setdefault(int(file.name.split(".")[0]), [])
            for line in filter(None, file.read_text().split("\n")[1:]):
                told = json.loads(line)
                number = int(told["path"].rsplit("/", 1)[1].removesuffix(".json"))
                files = found.setdefault(int(told["batchId"]), [])
                if number not in files:
                    files.append(number)
        return found


def _entry(entry: int, file: int, now_ms: int) -> str:
    return json.dumps({"path": f"{SEA}/{file:07}.json", "timestamp": now_ms, "batchId": entry})


def _number(offset: Any) -> int:
    if offset is None:
        return -1
    return int(offset["logOffset"] if "logOffset" in offset else offset["orders"]["0"])


def _newest(folder: Path) -> int | None:
    numbers = [int(file.name) for file in folder.glob("[0-9]*") if file.name.isdigit()]
    return max(numbers, default=None)


def _put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    hidden = file.with_name(f".{file.name}.tmp")
    hidden.write_text(text)
    hidden.rename(file)
