"""
What ``docs/walkthrough.md`` needs: a stream that may be changed, and other versions of its script.

Each version is made of the application itself by changing some words, so that what the gates say of
it can be read off the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.stage import APPLICATION, Stage
from demo.stream import Stream

SHOP: Final = "example_shop"
"""The stream that is there to be changed."""

_FASTER: Final = (
    '"--files-per-batch", type=int, default=1',
    '"--files-per-batch", type=int, default=20',
)
_LARGEST: Final = (
    (
        'F.count("*").alias("order_lines"),\n',
        'F.count("*").alias("order_lines"),\n            F.max("Quantity").alias("largest"),\n',
    ),
    ('            "order_lines",\n', '            "order_lines",\n            "largest",\n'),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """
    One version.

    :param edits: What is replaced, and by what.
    :param shows: What can be seen by trying it.
    """

    edits: tuple[tuple[str, str], ...]
    shows: str


VERSIONS: Final[Mapping[str, Version]] = {
    "largest_order": Version(
        edits=(*_LARGEST, _FASTER),
        shows="one more figure in the state: an upgrade to it is refused, a cutover makes it",
    ),
    "larger_batches": Version(
        edits=(_FASTER,), shows="more files in a batch: an upgrade to it is allowed"
    ),
}
"""By the names of their files."""


def write_versions(application: Path, folder: Path) -> dict[str, Path]:
    """
    Write every version of an application into a folder; return the files by their names.

    :raises RuntimeError: the application has no longer what a version replaces.
    """
    folder.mkdir(parents=True, exist_ok=True)
    good = application.read_text(encoding="utf-8")
    written = {}
    for name, version in VERSIONS.items():
        text = good
        for old, new in version.edits:
            if old not in text:
                raise RuntimeError(f"{application} has no {old!r} any more; change {name} too.")
            text = text.replace(old, new)
        written[name] = folder / f"{name}.py"
        written[name].write_text(text, encoding="utf-8")
    return written


class Walkthrough:
    """
    The stream that may be changed, turned on, and what to change it to.

    :param stage: Its Airflow has started.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage, self.stream = stage, Stream(stage.home, SHOP)
        self.files = write_versions(APPLICATION, stage.folder / "versions")
        self._is_on = False

    def look(self) -> str:
        """Turn the stream on once its dag is known, and return where it stands and what to try."""
        if not self._is_on and self._stage.airflow.has_dag(SHOP):
            self._stage.airflow.unpause(SHOP)
            self._is_on = True
        if not self.stream.is_well():
            return f"{SHOP} is not ready to be changed yet."
        tries = "\n".join(f"  {VERSIONS[n].shows}\n    {file}" for n, file in self.files.items())
        return f"To be changed from the page, as docs/walkthrough.md does: {SHOP}\n{tries}"
