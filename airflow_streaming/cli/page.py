"""The page of ``--report``: written after the verdict was printed, which must not be lost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

NOT_WRITTEN: Final = 2
"""Exit code when the verdict stands, and the page could not be written."""


def write_page(path: Path | None, text: str) -> bool:
    """Write a page if one is asked for; tell whether that went well, and say so where it did not."""
    if path is None:
        return True
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as err:
        why = err.strerror or type(err).__name__
        told = f"airflow-streaming: The report cannot be written to {path}: {why}."
        print(told, file=sys.stderr)
        return False
    return True
