"""Codes of findings that a user accepts, wherever they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.accepted import (
    OF_UPGRADE,
    STEPS_BACK,
    accepted_codes,
)
from airflow_streaming.model.arguments.form_policy import FormPolicy
from airflow_streaming.operators.cutover_preflight import CutoverPreflightOperator
from airflow_streaming.operators.upgrade_preflight import UpgradePreflightOperator
from airflow_streaming.options import CutoverOptions, RestartOptions, UpgradeOptions
from airflow_streaming.orchestration.cutover_form import cutover_params
from airflow_streaming.orchestration.form import rescale_params, upgrade_params
from airflow_streaming.spec import StreamSpec

SPEC = StreamSpec(name="orders", home="/srv/h", application="/jobs/orders.py", runtime="spark-4.3")


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        ("", set()),
        ([], set()),
        ("rollback.none", {"rollback.none"}),
        (" live.older_spark , rollback.replay,", {"live.older_spark", "rollback.replay"}),
        (["live.dropped_conf"], {"live.dropped_conf"}),
    ],
)
def test_a_list_and_a_text_with_commas_are_the_same(
    given: Sequence[str] | str, codes: set[str]
) -> None:
    assert accepted_codes(given) == codes


def an_upgrade(accept: Any) -> object:
    return UpgradePreflightOperator(task_id="t", stream=SPEC, accept=accept)


def a_cutover(accept: Any) -> object:
    return CutoverPreflightOperator(task_id="t", stream=SPEC, accept=accept)


PLACES: list[tuple[Callable[..., object], Sequence[str]]] = [
    (lambda accept: UpgradeOptions(accept=accept), OF_UPGRADE),
    (lambda accept: RestartOptions(accept=accept), OF_UPGRADE),
    (lambda accept: CutoverOptions(accept=accept), STEPS_BACK),
    (an_upgrade, OF_UPGRADE),
    (a_cutover, STEPS_BACK),
]
IDS = ["UpgradeOptions", "RestartOptions", "CutoverOptions", "upgrade", "cutover"]


@pytest.mark.parametrize(("give", "acceptable"), PLACES, ids=IDS)
@pytest.mark.parametrize("code", [*OF_UPGRADE, "older", "accept_replay"])
def test_each_place_takes_the_codes_of_its_change_and_refuses_others_when_the_dag_is_parsed(
    give: Callable[..., object], acceptable: Sequence[str], code: str
) -> None:
    if code in acceptable:
        give([code])
    else:
        with pytest.raises(SpecError, match=f"accept has '{code}'; give live.older_spark"):
            give([code])


@pytest.mark.parametrize("give", [an_upgrade, a_cutover])
@pytest.mark.parametrize("accept", ["{{ params.accept }}", ["{{ params.one }}", "rollback.none"]])
def test_codes_of_a_template_are_left_to_the_task(give: Callable[..., object], accept: Any) -> None:
    give(accept)


def test_each_form_offers_the_codes_of_its_change() -> None:
    forms = {
        "upgrade": upgrade_params(SPEC),
        "rescale": rescale_params(),
        "cutover": cutover_params(SPEC),
    }

    for form in forms.values():
        assert form["accept"].schema["examples"] == list(STEPS_BACK)
        assert form["accept"].resolve() == []


def test_a_form_offers_the_codes_of_a_rollback_where_the_author_lets_a_run_accept_them() -> None:
    policy = FormPolicy(accept=["rollback.replay"])
    spec = replace(SPEC, form_policy=policy)
    for form in (upgrade_params(spec), rescale_params(form_policy=policy)):
        assert form["accept"].schema["examples"] == [*STEPS_BACK, "rollback.replay"]
    assert cutover_params(spec)["accept"].schema["examples"] == list(STEPS_BACK)


@pytest.mark.parametrize("old", ["accept_replay", "needs_rollback"])
def test_the_earlier_switches_are_gone(old: str) -> None:
    with pytest.raises((SpecError, TypeError), match=old):
        UpgradeOptions(**{old: True})
    with pytest.raises((SpecError, TypeError), match=old):
        UpgradePreflightOperator(**{"task_id": "t", "stream": SPEC, old: True})
