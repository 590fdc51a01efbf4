"""What a query has done on its copy: the batches it committed, and an error in one line."""

from __future__ import annotations

from pathlib import Path

from airflow_streaming.driver.query import QueryError


def commits_of(copy: str) -> set[int]:
    """Return the batches that a copy of a checkpoint has committed."""
    folder = Path(copy) / "commits"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return {int(name) for name in names if name.isdigit()}


def sentence_of(error: QueryError) -> str:
    """Return what an error says, in one line; py4j's own words around it are left out."""
    core = error.core
    if core and error.exception_class == "Py4JJavaError":
        return core
    return error.message if not core or core in error.message else f"{error.message} ({core})"
