"""What one home that hangs may take, and when it is looked at again."""

from __future__ import annotations

import pytest

from airflow_streaming.plugins.access.slots import FIRST_REST, LONGEST_REST, Limits, Slots

BAD, GOOD = "s3://bad/streams", "s3://good/streams"
LIMITS = Limits(threads=4, per_home=2, stuck_per_home=3, stuck=6)


def hang(slots: Slots, home: str, now: float) -> None:
    slots.start(home)
    slots.write_off(home, now)


def test_a_home_gets_its_share_of_the_threads() -> None:
    slots = Slots(LIMITS)
    slots.start(BAD)
    slots.start(BAD)

    assert not slots.may_start(BAD, 0)
    assert slots.may_start(GOOD, 0)


def test_nothing_starts_when_every_thread_is_in_use() -> None:
    slots = Slots(LIMITS)
    for home in ("a", "b", "c", "d"):
        slots.start(home)

    assert not slots.may_start(GOOD, 0)


def test_a_thread_that_is_written_off_makes_room() -> None:
    slots = Slots(LIMITS)
    for home in ("a", "b", "c", "d"):
        slots.start(home)
    slots.write_off("a", 0)

    assert slots.running == 3
    assert slots.stuck == 1
    assert slots.may_start(GOOD, 0)


@pytest.mark.parametrize(
    ("times", "rest"),
    [(1, FIRST_REST), (2, 2 * FIRST_REST), (3, LONGEST_REST)],
    ids=["the first time", "again", "with all it may have written off"],
)
def test_a_home_that_hung_rests_for(times: int, rest: float) -> None:
    slots, now = Slots(LIMITS), 0.0
    for _ in range(times):
        now += 1000
        hang(slots, BAD, now)

    assert slots.rest_of(BAD, now) == rest
    assert slots.rest_of(GOOD, now) == 0


def test_two_looks_that_hang_together_are_one_time() -> None:
    slots = Slots(LIMITS)
    slots.start(BAD)
    slots.start(BAD)
    slots.write_off(BAD, 10)
    slots.write_off(BAD, 10.1)

    assert slots.rest_of(BAD, 10.1) == pytest.approx(FIRST_REST - 0.1)


def test_after_its_rest_one_look_tries_a_home() -> None:
    slots = Slots(LIMITS)
    hang(slots, BAD, 0)
    later = FIRST_REST + 1

    assert slots.may_start(BAD, later)
    slots.start(BAD)
    assert not slots.may_start(BAD, later)


@pytest.mark.parametrize(
    ("answered", "rest"), [(True, 0), (False, FIRST_REST)], ids=["answers", "fails"]
)
def test_a_thread_that_comes_back_ends_the_rest_only_if_its_home(
    answered: bool, rest: float
) -> None:
    slots = Slots(LIMITS)
    hang(slots, BAD, 0)
    slots.finish(BAD, answered=answered, was_stuck=True)

    assert slots.stuck == 0
    assert slots.rest_of(BAD, 0) == rest


def test_all_homes_together_have_no_more_written_off_than_the_limit() -> None:
    slots = Slots(LIMITS)
    for number in range(LIMITS.stuck):
        hang(slots, f"home-{number}", 0)

    assert slots.rest_of(GOOD, 1000) == LONGEST_REST
    slots.finish("home-0", answered=True, was_stuck=True)
    assert slots.rest_of(GOOD, 1000) == 0


def test_a_home_that_answers_leaves_nothing_behind() -> None:
    slots = Slots(LIMITS)
    slots.start(GOOD)
    slots.finish(GOOD, answered=True, was_stuck=False)

    assert slots == Slots(LIMITS)
