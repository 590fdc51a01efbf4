from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # Starlette asks for a successor of httpx that Airflow does not bring.
    warnings.simplefilter("ignore")
    import starlette.testclient  # noqa: F401

from tests.page.demo_home import demo_home

__all__ = ["demo_home"]
