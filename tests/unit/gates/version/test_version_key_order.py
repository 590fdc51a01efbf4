from __future__ import annotations

import pytest

from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.gates.version.matrix import release_of
from airflow_streaming.gates.version.shape import KeyOrder, compare_order, hashed_order
from airflow_streaming.model.plan.schema import Column

FRUIT = ["apple", "berry", "cherry", "date", "s"]
FRUIT_IN_3_5 = ["s", "date", "cherry", "berry", "apple"]
FRUIT_IN_4 = ["s", "berry", "apple", "date", "cherry"]
SHORT_IN_ALL = ["s", "n", "v", "id", "k"]


def stored(names: list[str]) -> StoreSchema:
    key = tuple(Column(name=name, type="string") for name in names)
    value = (Column(name="__dummy__", type="void"),)
    return StoreSchema(operator=0, store="default", key=key, value=value, path="")


@pytest.mark.parametrize(
    ("names", "version", "order"),
    [
        (FRUIT, "3.5.9", FRUIT_IN_3_5),
        (FRUIT, "4.0.5", FRUIT_IN_4),
        (FRUIT, "4.2.1", FRUIT_IN_4),
        (["k", "id", "v", "n", "s"], "3.5.9", SHORT_IN_ALL),
        (["k", "id", "v", "n", "s"], "4.1.4", SHORT_IN_ALL),
    ],
)
def test_the_order_is_that_of_the_state_which_each_spark_wrote(
    names: list[str], version: str, order: list[str]
) -> None:
    assert hashed_order(names, release_of(version)) == order


def test_names_whose_hashes_are_equal_are_kept_all_the_same() -> None:
    # The two texts have one hash in Java.
    names = ["Aa", "BB", "c", "d", "e"]

    assert sorted(hashed_order(names, release_of("4.0"))) == sorted(names)


@pytest.mark.parametrize(
    ("names", "way", "is_pinned", "order"),
    [
        pytest.param(["b", "a", "d", "c"], "3.5 4.3", False, KeyOrder.SAME, id="four columns"),
        pytest.param(FRUIT_IN_3_5, "3.5 4.3", False, KeyOrder.DIFFERENT, id="hashes begin alike"),
        pytest.param(SHORT_IN_ALL, "3.5 4.3", False, KeyOrder.SAME, id="hashes begin otherwise"),
        pytest.param(FRUIT_IN_4, "4.0 4.3", False, KeyOrder.SAME, id="within Spark 4"),
        pytest.param(FRUIT_IN_4, "4.0 3.5", False, KeyOrder.DIFFERENT, id="down to Spark 3"),
        pytest.param(FRUIT, "4.3 4.2", True, KeyOrder.DIFFERENT, id="down from the code's order"),
        pytest.param(FRUIT, "4.3 4.4", True, KeyOrder.SAME, id="up with the code's order"),
        pytest.param(FRUIT, "4.3.0 4.3.1", False, KeyOrder.SAME, id="another patch"),
        pytest.param(FRUIT, "4.0 4.3", False, KeyOrder.UNTOLD, id="no order that hashes give"),
    ],
)
def test_orders_are_compared(names: list[str], way: str, is_pinned: bool, order: KeyOrder) -> None:
    start, target = map(release_of, way.split())

    found = compare_order(stored(names), start, target, by_code=is_pinned, is_pinned=is_pinned)

    assert found is order


@pytest.mark.parametrize(
    ("names", "order"),
    [(FRUIT, KeyOrder.DIFFERENT), (SHORT_IN_ALL, KeyOrder.SAME)],
    ids=["another order", "the same by chance"],
)
def test_an_order_that_was_pinned_once_is_that_of_the_state(
    names: list[str], order: KeyOrder
) -> None:
    start, target = release_of("4.2"), release_of("4.3")

    assert compare_order(stored(names), start, target, by_code=True, is_pinned=False) is order
