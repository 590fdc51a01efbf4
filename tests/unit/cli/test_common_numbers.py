"""A number on the command line is digits of this script, as a shell's user writes them."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from airflow_streaming.cli.common import count, positive, seconds
from airflow_streaming.cli.main import main
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.spark.conf import parse_spark_version

ODD = ["1_0", "\u0661\u0662", "\uff11", " 1", "1 ", "0x1", "9" * 5000, "", "1__0", "\u00b2"]


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("kind", [count, positive, seconds])
def test_what_only_python_takes_for_a_number_is_refused(kind: object, text: str) -> None:
    assert callable(kind)
    with pytest.raises(ArgumentTypeError):
        kind(text)


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "1.5.2", "1e", "."])
def test_what_is_no_finite_number_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "value"), [("10", 10), ("+7", 7), ("0.5", 0.5), (".5", 0.5), ("1e3", 1000), ("2.", 2)]
)
def test_plain_numbers_are_taken(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["1_0", "\u0664", "0", "-1"])
def test_cores_are_a_plain_positive_number(text: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["conf", "--spark", "4.3", "--cores", text])


@pytest.mark.parametrize("text", ["\u0664.3", "4.\u0663", "4_0.3"])
def test_a_version_has_plain_digits(text: str) -> None:
    with pytest.raises(SpecError):
        parse_spark_version(text)
