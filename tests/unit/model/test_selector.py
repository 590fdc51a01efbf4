"""Labels, and the selectors that find streams by them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.selector import (
    CLOSED,
    FACTS,
    MOST_CHARACTERS,
    MOST_LABELS,
    MOST_TERMS,
    check_labels,
    parse_selector,
)
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.supervision.stream_status import Level, Standing

ORDERS = {
    "team": ("payments",),
    "tier": ("1",),
    "spark": ("3.5.9",),
    "source": ("kafka", "kafka://broker-1:9092/orders"),
    "sink": ("file", "file:///out/[a]?"),
}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("team=payments", True),
        ("team == payments", True),
        ("team=pay", False),
        ("team=pay*", True),
        ("team=*ment*", True),
        ("team=Payments", False),
        ("team!=payments", False),
        ("team!=fraud", True),
        ("owner!=ann", True),
        ("owner=ann", False),
        ("owner=*", False),
        ("tier", True),
        ("owner", False),
        ("!tier", False),
        ("! owner", True),
        ("tier in (1)", True),
        ("tier in ( 2 , 1 )", True),
        ("tier in (2, 3)", False),
        ("tier notin (2, 3)", True),
        ("tier notin (2, 1)", False),
        ("owner notin (ann)", True),
        ("spark=3.5*,team=payments", True),
        ("spark=4*,team=payments", False),
        (" team = payments , tier in (1,2) , !owner ", True),
        ("source=kafka", True),
        ("source=kafka://broker-1*", True),
        ("source!=kafka", False),
        ("source in (rate, kafka://*)", True),
        ("sink=file:///out/[a]?", True),
        ("sink=file:///out/?a]?", False),
        ("sink=file:///out/[ab]?", False),
    ],
)
def test_a_selector_selects(text: str, selects: bool) -> None:
    assert all(term.holds(ORDERS) for term in parse_selector(text).terms) is selects


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", "''"),
        (" ", "' '"),
        ("team=", "'team='"),
        ("team=a,", "''"),
        ("team=a,,tier", "',tier'"),
        ("=a", "'=a'"),
        ("team in a", "'team in a'"),
        ("team in (a", "'team in (a'"),
        ("team=(a)", "'team=(a)'"),
        ("tier,team within (a)", "'team within (a)'"),
        ("!", "'!'"),
        ("!team=a", "'!team=a'"),
        ("team>1", "'team>1'"),
        ("team==", "'team=='"),
        ("team===a", "'team===a'"),
        (",".join(["a"] * (MOST_TERMS + 1)), "'a'"),
    ],
)
def test_a_text_that_is_no_selector_is_refused_with_the_place(text: str, at: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_selector(text)
    assert f"cannot be read from {at} on" in str(refused.value)


def test_a_set_with_an_empty_value_and_a_book_are_refused() -> None:
    with pytest.raises(SpecError, match="empty value for 'tier'"):
        parse_selector("tier in (1,)")
    with pytest.raises(SpecError, match=str(MOST_CHARACTERS)):
        parse_selector("a" * (MOST_CHARACTERS + 1))
    assert len(parse_selector(",".join(["a"] * MOST_TERMS)).terms) == MOST_TERMS


def test_a_key_that_no_stream_has_is_refused_whatever_it_would_select() -> None:
    for text in ("teem=a", "!teem", "teem!=a", "team=a,teem"):
        with pytest.raises(SpecError, match=r"'teem'.*Labels: team, tier\. Facts: name, dag,"):
            parse_selector(text).check_labels({"tier", "team"})
    with pytest.raises(SpecError, match="Labels: none"):
        parse_selector("team").check_labels(())
    with pytest.raises(SpecError, match="l09 and 2 more"):
        parse_selector("team").check_labels([f"l{n:02}" for n in range(12)])
    parse_selector(",".join(["team", *FACTS])).check_labels({"team"})


def test_the_page_has_a_row_for_each_fact() -> None:
    page = (Path(__file__).parents[3] / "docs" / "selecting.md").read_text()
    rows = page.split("| fact | value |")[1].split("\n\n")[0]
    named = [
        name for row in rows.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])
    ]

    assert named == [*FACTS]


def test_a_message_cuts_the_label_of_a_forged_record() -> None:
    with pytest.raises(SpecError) as refused:
        parse_selector("team").check_labels(["k" * 100_000])
    assert len(str(refused.value)) < 1_000


def test_only_some_selectors_need_plans() -> None:
    assert not parse_selector("name,dag,runtime,state,team").needs_plans
    for key in ("stateful", "source", "sink", "upstream_of", "downstream_of"):
        assert parse_selector(f"team,{key}=*").needs_plans


@pytest.mark.parametrize(
    "labels",
    [
        {"team": "payments", "tier": "1"},
        {"example.com/team": "a_b-c.d"},
        {"k" * 63: "v" * 63},
        {f"k{n}": "v" for n in range(MOST_LABELS)},
    ],
    ids=["plain", "prefix", "long", "many"],
)
def test_labels_are_those_of_kubernetes(labels: dict[str, str]) -> None:
    check_labels("orders", labels)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"team": ""}, "The value '' of label 'team'"),
        ({"": "a"}, "Label ''"),
        ({"team": "-a"}, "The value '-a' of label 'team'"),
        ({"team": "a-"}, "The value 'a-' of label 'team'"),
        ({"team": "a*"}, "The value 'a*' of label 'team'"),
        ({"team": "a\n"}, "The value 'a\\n' of label 'team'"),
        ({"te am": "a"}, "Label 'te am'"),
        ({"a//b": "1"}, "Label 'a//b' of stream 'orders' has 2 slashes"),
        ({"k" * 64: "a"}, "Label 'kkk"),
        ({"k": "v" * 64}, "The value 'vvv"),
        (
            {"runtime": "a"},
            "'runtime' of stream 'orders' has the name of a fact (the runtime of its",
        ),
        ({f"k{n}": "v" for n in range(MOST_LABELS + 1)}, "has 33 labels"),
    ],
)
def test_a_label_that_cannot_be_used_is_named(labels: dict[str, str], says: str) -> None:
    with pytest.raises(SpecError) as refused:
        check_labels("orders", labels)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        # Without a comma the second condition was a part of the first one's value.
        ("team!=payments tier=1", "compares label 'team' with 'payments tier=1'"),
        ("team=pay\nments", "which no label can be"),
        ("tier in (1, a/b)", "compares label 'tier' with 'a/b'"),
        ("name=orders spark=3.5", "Put a comma between two conditions"),
        (
            "level!=dwon",
            "'dwon', which it never is. It is one of bad, busy, down, off, warn, well.",
        ),
        ("state=foo", "gave_up"),
        ("stateful=maybe", "It is one of no, yes."),
    ],
)
def test_a_value_that_the_key_never_has_is_refused(text: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_selector(text)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "team=pay*,tier!=1.2_b-c",
        "level in (down, b*)",
        "state!=health*",
        "tag=my team",
        "source=s3://lake/day=1/my folder",
        "downstream_of=kafka://b:9092/orders",
    ],
)
def test_a_value_that_the_key_may_have_is_read(text: str) -> None:
    assert parse_selector(text).text == text


def test_the_words_of_state_and_level_are_those_of_a_stream() -> None:
    assert CLOSED["level"] == {*Level}
    assert CLOSED["state"] == {*VerdictState, *Standing}
