"""Texts of plans taken apart: what a projection computes, and which columns it names."""

from __future__ import annotations

import pytest

from airflow_streaming.gates.change.pair import items_of, names_in, tags_in


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("k, (v + 1) AS w", {"k": "k", "w": "(v + 1)"}),
        ("v AS `v (EUR)`", {"`v (EUR)`": "v"}),
        ("(v * 2) AS `v (EUR)`, k", {"`v (EUR)`": "(v * 2)", "k": "k"}),
        ("`a, b` AS c, d", {"c": "`a, b`", "d": "d"}),
        ("f(', (') AS c, d", {"c": "f(', (')", "d": "d"}),
        ("`it's` AS c, d AS `it's`", {"c": "`it's`", "`it's`": "d"}),
        ("f('`') AS c, d AS `(`", {"c": "f('`')", "`(`": "d"}),
        ("f('it''s, ') AS c, d", {"c": "f('it''s, ')", "d": "d"}),
        ("v AS `a``)`, k", {"`a``)`": "v", "k": "k"}),
        ("`v v`@0 AS `w w`@1", {"`w w`@1": "`v v`@0"}),
    ],
)
def test_what_a_projection_computes_is_told_by_its_columns(
    text: str, items: dict[str, str]
) -> None:
    assert items_of(text) == items


@pytest.mark.parametrize(
    ("text", "name", "is_named"),
    [
        ("sum(v)", "v", True),
        ("sum(vv)", "v", False),
        ("'v'", "v", False),
        ("v@1", "v", True),
        ("v@1", "v@0", False),
        ("sum(`v (EUR)`)", "`v (EUR)`", True),
        ("sum(`v (EUR)`)", "v (EUR)", True),
        ("v (EUR)", "`v (EUR)`", True),
        ("`v (EUR)`@1", "`v (EUR)`@1", True),
        ("`v (EUR)`@1", "`v (EUR)`@0", False),
        ("`v (EUR)`@1", "`v (EUR)`", True),
        ("`a@1b` + v", "`a@1b`", True),
        ("`mail@1`", "mail@1", True),
        ("`a``b`", "a`b", True),
        ("a`b", "`a``b`", True),
        ("`it's` + v + `it's`", "v", True),
    ],
)
def test_a_column_is_found_in_a_text_however_its_name_is_quoted(
    text: str, name: str, is_named: bool
) -> None:
    assert (names_in([text], [name]) == {name}) is is_named


def test_numbers_of_sources_are_read_outside_of_literals() -> None:
    assert tags_in(["k@1 = 'v@7'", "`it's`@0"]) == [0, 1]
