"""The Grafana dashboards and Prometheus rules of the package, written where these programs read them."""

from __future__ import annotations

import argparse
import os
from importlib.resources import files
from pathlib import Path
from typing import Final

from airflow_streaming.cli.common import OK
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.texts import printable

_KINDS: Final = ("grafana", "prometheus")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``monitoring``."""
    parser.set_defaults(run=monitoring)
    parser.add_argument(
        "--write", type=Path, metavar="DIR", help="write the files below this folder"
    )
    parser.add_argument("--force", action="store_true", help="replace files that differ")


def monitoring(arguments: argparse.Namespace) -> int:
    """List the files, or write them below a folder. A file that differs stays unless forced."""
    shipped = _shipped()
    if arguments.write is None:
        print("\n".join(shipped))
        return OK
    places = {arguments.write / name: text for name, text in shipped.items()}
    if blocked := [place for place in places if os.path.lexists(place) and not place.is_file()]:
        raise SpecError(
            f"Nothing was written: {blocked[0]} is not a file. Move it away, or give another folder."
        )
    changed = [
        place
        for place, text in places.items()
        if place.is_file() and place.read_bytes() != text.encode()
    ]
    if changed and not arguments.force:
        raise SpecError(
            f"Nothing was written. These files differ from this release's: {', '.join(map(str, changed))}. Give "
            "--force to replace them, or another folder."
        )
    for place, text in places.items():
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        except OSError as err:
            raise SpecError(
                f"{place} cannot be written: {err.strerror}. Give another folder."
            ) from err
        print(printable(str(place)))
    return OK


def _shipped() -> dict[str, str]:
    root = files("airflow_streaming") / "monitoring"
    return {
        f"{kind}/{file.name}": file.read_text(encoding="utf-8")
        for kind in _KINDS
        for file in sorted((root / kind).iterdir(), key=lambda file: file.name)
    }
