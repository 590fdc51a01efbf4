"""Errors that no retry repairs, as Airflow names them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import HomeNotExclusive, SpecError


@contextlib.contextmanager
def spec_errors_are_final() -> Iterator[None]:
    """Turn "retrying is useless" into Airflow's word for it; the one place that does."""
    try:
        yield
    except (SpecError, HomeNotExclusive) as err:
        raise AirflowFailException(str(err)) from err
