"""The measured matrix that is shipped with the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from airflow_streaming.core.compatibility.version.matrix import Matrix
from airflow_streaming.core.wire import parse_json


@cache
def load_matrix() -> Matrix:
    """
    Return the matrix that this release was shipped with.

    :raises RecordError: the installation is damaged.
    """
    data = files("airflow_streaming.upgrade").joinpath("measured", "versions.json").read_bytes()
    return Matrix.from_dict(parse_json(data))
