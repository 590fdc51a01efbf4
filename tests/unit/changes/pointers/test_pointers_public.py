"""The public door to the adapters opens without Airflow."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_streaming import pointers


def test_airflow_is_only_needed_for_the_adapter_that_uses_it() -> None:
    code = "import sys, airflow_streaming.pointers; print('airflow' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize("name", pointers.__all__)
def test_every_adapter_is_there(name: str) -> None:
    assert getattr(pointers, name).__name__ == name


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'FtpPointer'"):
        pointers.FtpPointer  # noqa: B018 - asking is the test
