"""
Record what this release writes: an example of each record, and the home of a stream that runs.

    python -m tests.homes.record

It writes ``tests/homes/<version>.json``, which the tests of later releases read. Run it once for each release, as
RELEASING.md says; a file of a published release never changes.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_streaming import __version__
from airflow_streaming.model.names import PLACES

FOLDER: Final = Path(__file__).parent
REPOSITORY: Final = FOLDER.parent.parent
PLACE: Final = "{folder}"
"""Stands for the folder of the recorded world, ``{repository}`` for the checkout."""
STREAM: Final = "orders"


def main() -> None:
    """Write the file of this release."""
    with tempfile.TemporaryDirectory() as text, pytest.MonkeyPatch.context() as patch:
        found = {"records": examples(), "home": running_home(Path(text), patch)}
    (FOLDER / f"{__version__}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def examples() -> list[str]:
    """Return the bytes of each example, as text."""
    from tests.unit.model.examples import EXAMPLES

    stored = (one.to_bytes(STREAM if one.KIND in PLACES else None) for one in EXAMPLES)
    return [data.decode() for data in stored]


def running_home(folder: Path, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the files of a home whose stream runs its first epoch, by path."""
    from tests.unit.world import make_world

    world = make_world(folder, patch)
    world.run()
    world.say()
    home = Path(world.uri)
    files = (path for path in sorted(home.rglob("*")) if path.is_file())
    texts = {str(path.relative_to(home)): path.read_text() for path in files}
    return {
        name: text.replace(str(folder), PLACE).replace(str(REPOSITORY), "{repository}")
        for name, text in texts.items()
    }


def unpacked(recorded: dict[str, Any], folder: Path) -> None:
    """Write a recorded home to ``home`` in the folder of a world."""
    for name, text in recorded["home"].items():
        path = folder / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace(PLACE, str(folder)).replace("{repository}", str(REPOSITORY)))


if __name__ == "__main__":
    main()
