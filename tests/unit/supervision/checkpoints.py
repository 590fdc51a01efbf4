"""Checkpoints as Spark leaves them, without Spark."""

from __future__ import annotations

import os
from pathlib import Path


class Checkpoint:
    """A checkpoint whose batches are planned and committed by the test, at times it gives."""

    def __init__(self, folder: Path, query_id: str = "e28f-0-0-0-1") -> None:
        self.folder = folder
        for log in ("offsets", "commits"):
            (folder / log).mkdir(parents=True)
        (folder / "metadata").write_text(f'{{"id":"{query_id}"}}')

    def plan(
        self, batch: int, at: float = 0.0, *, version: str = "v1", watermark_ms: int = 0
    ) -> None:
        told = f'"batchWatermarkMs":{watermark_ms},"batchTimestampMs":1795262400000'
        metadata = f'{{{told},"conf":{{}}}}'
        name = "0:" if version == "v2" else ""
        self.write(f"offsets/{batch}", f"{version}\n{metadata}\n{name}{batch * 10}", at)

    def commit(self, batch: int, at: float = 0.0, watermark_ms: int = 0) -> None:
        self.write(f"commits/{batch}", f'v1\n{{"nextBatchWatermarkMs":{watermark_ms}}}', at)

    def run(self, *batches: int) -> None:
        """Plan and commit batches that take two seconds, one every ten seconds."""
        for batch in batches:
            self.plan(batch, at=batch * 10)
            self.commit(batch, at=batch * 10 + 2)

    def write(self, path: str, text: str, at: float = 0.0) -> None:
        file = self.folder / path
        file.write_text(text)
        os.utime(file, (1_795_262_400 + at, 1_795_262_400 + at))

    def fingerprint(self) -> dict[str, tuple[bytes, int]]:
        """Return every file with its content and time, and every folder with its time."""
        return fingerprint(self.folder)


def fingerprint(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return everything in a folder with its content and time."""
    return {
        str(path.relative_to(folder)): (
            path.read_bytes() if path.is_file() else b"",
            path.stat().st_mtime_ns,
        )
        for path in [folder, *folder.rglob("*")]
    }
