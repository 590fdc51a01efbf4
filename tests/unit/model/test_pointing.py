"""Which word about a pointer counts: the later one, and an undo above the move that it undoes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from airflow_streaming.exceptions import PointerRefused, RecordError
from airflow_streaming.model.jobs.pointing import Mark, should_write

GREEN = Mark(stream="orders", lane="orders.green", deployment=3, output="/lake/g", number=4)
BACK = replace(GREEN, lane="orders", output="/lake/b", undone=True)
NEXT = replace(GREEN, lane="orders", output="/lake/b2", number=5)


@pytest.mark.parametrize(
    ("shown", "wanted", "writes"),
    [
        pytest.param(None, GREEN, True, id="what is not there yet is made"),
        pytest.param(GREEN, GREEN, False, id="what is shown already is left alone"),
        pytest.param(GREEN, BACK, True, id="a move is undone"),
        pytest.param(BACK, BACK, False, id="what was undone is left alone"),
        pytest.param(replace(GREEN, number=3), BACK, True, id="a move that never came is undone"),
        pytest.param(BACK, NEXT, True, id="the next cutover moves what was undone"),
        pytest.param(GREEN, NEXT, True, id="the next cutover moves on"),
    ],
)
def test_a_word_that_is_not_late_is_written(shown: Mark | None, wanted: Mark, writes: bool) -> None:
    assert should_write(shown, wanted, "the view v") is writes


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        pytest.param(BACK, GREEN, id="a move after its undoing"),
        pytest.param(NEXT, GREEN, id="a move after the next one"),
        pytest.param(NEXT, BACK, id="an undoing after the next move"),
    ],
)
def test_a_late_word_is_refused_with_what_stands(shown: Mark, wanted: Mark) -> None:
    with pytest.raises(
        PointerRefused,
        match=r"The view v was not moved .* it already has .*record .*, which leads to",
    ):
        should_write(shown, wanted, "the view v")


def test_the_pointer_of_another_stream_is_not_moved() -> None:
    with pytest.raises(PointerRefused, match="leads to stream 'payments' and is not moved"):
        should_write(replace(GREEN, stream="payments"), NEXT, "the view v")


def test_in_whatever_order_words_come_the_last_one_stands() -> None:
    for order in itertools.permutations([GREEN, BACK, NEXT, GREEN, BACK]):
        shown: Mark | None = None
        for word in order:
            try:
                shown = word if should_write(shown, word, "the view v") else shown
            except PointerRefused:
                continue
        assert shown == NEXT


def test_a_mark_survives_the_way_through_properties() -> None:
    for mark in (GREEN, BACK):
        others = {"owner": "kim", "view.query.out.numCols": "2"}
        assert Mark.from_properties({**others, **mark.properties()}) == mark


def test_the_streams_name_alone_lets_us_write() -> None:
    adopted = Mark.from_properties({"airflow_streaming.stream": "orders"})
    assert should_write(adopted, GREEN, "the view v")


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"owner": "kim"}, id="none of ours"),
        pytest.param(
            {"airflow_streaming.stream": "s", "airflow_streaming.number": "x"}, id="no number"
        ),
    ],
)
def test_foreign_properties_are_no_mark(properties: dict[str, str]) -> None:
    with pytest.raises(RecordError):
        Mark.from_properties(properties)
