"""An error of Spark says which file, value or record it failed on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_streaming.model.spark.failures import bad_input, bad_value

CORPUS = Path(__file__).parents[2] / "corpus/failures"
SAYS = {
    "batch_function_bad_cast": "Spark names value 'a', a STRING that is no INT.",
    "row_cast_invalid": "Spark names value 'a', a STRING that is no INT.",
    "malformed_input_row": "The record cannot be read at line 1, column 17.",
    "row_json_fail_fast": "The record cannot be read at line 1, column",
}
"""By the scenario of the corpus, what Spark's error names, on every release."""


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_errors_of_every_release_name_value_file_and_place(file: Path) -> None:
    errors = {one["scenario"]: one for one in map(json.loads, file.read_text().splitlines())}
    for scenario, text in SAYS.items():
        assert text in bad_input(errors[scenario]["text"]), scenario
    told = bad_input(errors["malformed_input_row"]["text"])
    assert told.startswith("Spark names file file:///data/stage/malformed-")


def test_no_other_error_of_the_corpus_names_an_input() -> None:
    named = set()
    for file in CORPUS.glob("*.jsonl"):
        for one in map(json.loads, file.read_text().splitlines()):
            if bad_input(one["text"]):
                named.add(one["scenario"])
    assert named == {*SAYS, "input_file_vanished"}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("", ""),
        ("ValueError: invalid literal for int() with base 10: 'x'", ""),
        (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a%20b.json.  SQLSTATE: KD001",
            "Spark names file file:///in/a%20b.json.",
        ),
        (
            "Malformed records are detected in record parsing: [7,null].\nParse Mode: FAILFAST",
            "Spark names record [7,null].",
        ),
        ("Malformed records are detected in record parsing: [null,null].\n", ""),
        ("The value '" * 20_000, ""),
        ("at [Source: line: 1, column: 2]", ""),
    ],
)
def test_an_error_without_an_input_names_none(error: str, told: str) -> None:
    assert bad_input(error) == told


@pytest.mark.parametrize(
    ("error", "value"),
    [
        ("", None),
        ("KeyError: 'price'", None),
        ("ValueError: invalid literal for int() with base 10: 'x7'", "x7"),
        ("ValueError: could not convert string to float: '7,5'", "7,5"),
        ('The value \'a\' of the type "STRING" cannot be cast to "INT"', "a"),
        ("ValueError: invalid literal for int() with base 10: ''", None),
    ],
)
def test_the_value_of_a_cast_or_of_pythons_numbers_is_known(error: str, value: str | None) -> None:
    assert bad_value(error) == value
