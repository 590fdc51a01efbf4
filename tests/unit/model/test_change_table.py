"""Every kind of change: its table refuses everything else."""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import Any, Final

import pytest

from airflow_streaming.model.records.change_table import ChangeTable, Transition
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverCommand, CutoverTransition
from airflow_streaming.model.records.upgrade_table import UPGRADE, UpgradeCommand, UpgradeTransition
from tests.unit.home.make import NOON

KINDS: Final = {
    "cutover": (CUTOVER, CutoverTransition, CutoverCommand),
    "upgrade": (UPGRADE, UpgradeTransition, UpgradeCommand),
}
TABLES: Final[list[ChangeTable[Any, Any]]] = [table for table, _, _ in KINDS.values()]
STATES: Final = [pytest.param(t, s, id=f"{t.name}-{s}") for t in TABLES for s in type(t.start)]


def reachable(table: ChangeTable[Any, Any], start: StrEnum) -> set[StrEnum]:
    """Return every state that some course leads to."""
    found, open_ = {start}, [start]
    while open_:
        at = open_.pop()
        new = {to for (before, _), to in table.rows.items() if before is at} - found
        found |= new
        open_ += new
    return found


def events(table: ChangeTable[Any, Any]) -> set[StrEnum]:
    return set(type(next(iter(table.rows))[1]))


@pytest.mark.parametrize(("table", "state"), STATES)
def test_an_event_leads_where_the_table_says_and_every_other_is_refused_with_what_is_allowed(
    table: ChangeTable[Any, Any], state: StrEnum
) -> None:
    allowed = {event: to for (at, event), to in table.rows.items() if at is state}
    assert {event: table.after(state, event) for event in allowed} == allowed
    refused = type(table.refusal(1, "orders", state, next(iter(table.commands))))
    for event in events(table) - set(allowed):
        with pytest.raises(refused, match=f"'{state}' cannot take '{event}'. Allowed here: ") as e:
            table.after(state, event)
        assert all(named in str(e.value) for named in allowed or {"nothing"})


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_state_can_be_reached_every_event_can_happen_and_no_state_is_a_trap(
    table: ChangeTable[Any, Any],
) -> None:
    assert reachable(table, table.start) == set(type(table.start))
    assert {event for _, event in table.rows} == events(table)
    for state in type(table.start):
        assert reachable(table, state) & table.ends


@pytest.mark.parametrize(("table", "state"), STATES)
def test_a_command_is_offered_where_its_event_can_happen_and_else_refused_with_what_is_offered(
    table: ChangeTable[Any, Any], state: StrEnum
) -> None:
    offered = table.commands_in(state)
    for name, command in table.commands.items():
        is_possible = any((state, event) in table.rows for event in command.events)
        assert (name in offered) == is_possible
        told = str(table.refusal(7, "orders", state, name))
        assert f"`{name}` is possible in " in told
        assert all(other in told for other in offered)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_command_is_in_force_only_where_it_has_led(table: ChangeTable[Any, Any]) -> None:
    for command, told in table.commands.items():
        meant = (*told.events, *told.instead)
        led_to = {to for (_, event), to in table.rows.items() if event in meant}
        assert not told.reached or set(told.reached) & led_to
        for to in told.reached:
            assert any(to in reachable(table, at) for at in led_to), (command, to)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_command_of_the_enum_is_one_of_the_table(kind: tuple[Any, ...]) -> None:
    table, _, commands = kind
    assert {command.value for command in commands} == set(table.commands)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_step_survives_its_record_and_none_is_made_that_the_table_has_not(
    kind: tuple[Any, ...],
) -> None:
    table, transition, _ = kind
    told = {"change": 1, "reason": "So it is.", "at": NOON, "by": "kim", "facts": {"a": "b"}}
    for state, event in product(type(table.start), events(table)):
        history: list[Transition[Any, Any]] = [_leading_to(transition, state)]
        if not table.allows(state, event):
            with pytest.raises(type(table.refusal(1, "o", state, next(iter(table.commands))))):
                transition.next_of(history, table, event, **told)
            continue
        step = transition.next_of(history, table, event, **told)
        assert (step.number, step.before, step.after) == (2, state, table.rows[state, event])
        assert transition.from_bytes(step.to_bytes()) == step


def _leading_to(transition: Any, state: StrEnum) -> Transition[Any, Any]:
    told = {"change": 1, "number": 1, "reason": "", "at": NOON, "by": "kim"}
    found: Transition[Any, Any] = transition(before=state, event=None, after=state, **told)
    return found
