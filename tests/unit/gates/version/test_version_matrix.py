from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.exceptions import RecordError
from airflow_streaming.gates.version.matrix import Matrix, Outcome, Seen


def a_matrix(**changes: Any) -> dict[str, Any]:
    told = {
        "format": 1,
        "measured": "2026-11-21",
        "releases": {"3.5": "3.5.9", "4.3": "4.3.0"},
        "cells": {
            "limit/hdfs": {
                "3.5>4.3": "same moved",
                "4.3>3.5": {"there": "failed", "condition": "A_CONDITION", "unchecked": "same"},
                "4.3>4.3": "same",
            }
        },
    }
    return {**told, **changes}


@pytest.mark.parametrize(
    ("pair", "seen"),
    [
        (("3.5", "4.3"), Seen(there=Outcome.SAME, back=Outcome.MOVED)),
        (
            ("4.3", "3.5"),
            Seen(there=Outcome.FAILED, condition="A_CONDITION", unchecked=Outcome.SAME),
        ),
        (("4.3", "4.3"), Seen(there=Outcome.SAME)),
        (("3.5", "4.2"), None),
    ],
    ids=["two words", "all that was seen", "one word", "not tried"],
)
def test_a_pair_is_found(pair: tuple[str, str], seen: Seen | None) -> None:
    assert Matrix.from_dict(a_matrix()).seen("limit", "hdfs", pair) == seen


def apart(shape: str, store: str, cells: dict[str, Any]) -> Seen | None:
    told = a_matrix(cells={name: {"3.5>4.3": seen} for name, seen in cells.items()})
    return Matrix.from_dict(told).apart(shape, store, ("3.5", "4.3"))


@pytest.mark.parametrize(
    ("cells", "there"),
    [
        pytest.param({"a/hdfs": "same", "b/rocksdb": "same"}, Outcome.SAME, id="both did well"),
        pytest.param({"a/hdfs": "failed", "b/rocksdb": "same"}, Outcome.FAILED, id="a bad shape"),
        pytest.param(
            {"a/hdfs": "same", "b/hdfs": "failed", "b/rocksdb": "failed"},
            Outcome.SAME,
            id="what fails on this store fails on another too",
        ),
        pytest.param(
            {"a/hdfs": "same", "b/hdfs": "same", "b/rocksdb": "failed"}, None, id="a bad store"
        ),
        pytest.param({"a/hdfs": "same"}, None, id="a store that nobody measured"),
        pytest.param({"b/rocksdb": "same"}, None, id="a shape that nobody measured"),
        pytest.param(
            {"a/hdfs": "same", "a/format_2": "failed", "b/rocksdb": "same"},
            None,
            id="a shape that depends on its store",
        ),
    ],
)
def test_shape_and_store_can_have_been_measured_apart(
    cells: dict[str, Any], there: Outcome | None
) -> None:
    found = apart("a", "rocksdb", cells)

    assert (found.there if found else None) == there


def test_the_way_back_may_have_been_tried_on_one_store_only() -> None:
    cells = {"a/hdfs": "same same", "a/format_2": "same", "b/rocksdb": "same"}

    assert apart("a", "rocksdb", cells) == Seen(there=Outcome.SAME, back=Outcome.SAME)


def test_a_store_that_does_worse_on_the_way_back_promises_none() -> None:
    cells = {"a/hdfs": "same same", "b/hdfs": "same same", "b/rocksdb": "same failed"}

    assert apart("a", "rocksdb", cells) == Seen(there=Outcome.SAME)


def test_what_was_seen_on_other_stores_is_told_by_store() -> None:
    told = a_matrix(cells={f"a/{store}": {"3.5>4.3": "same"} for store in ("hdfs", "rocksdb")})

    found = Matrix.from_dict(told).elsewhere("a", "rocksdb", ("3.5", "4.3"))

    assert found == {"hdfs": Seen(there=Outcome.SAME)}


def test_a_version_stands_for_the_release_that_was_measured() -> None:
    matrix = Matrix.from_dict(a_matrix())

    assert [matrix.exact("3.5"), matrix.exact("9.9")] == ["3.5.9", "9.9"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 2}, "reads version matrices of format 1"),
        ({"cells": {"limit/hdfs": {"3.5>4.3": "splendid"}}}, "unknown outcome"),
        ({"cells": {"limit/hdfs": {"3.5>4.3": 7}}}, "a pair"),
        ({"cells": []}, "cells"),
        ({"measured": None}, "measured"),
    ],
    ids=["a newer format", "an unknown outcome", "no outcome", "no cells", "no day"],
)
def test_what_is_no_matrix_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError, match=said):
        Matrix.from_dict(a_matrix(**changes))
