"""Each word of a change has one meaning: in the options, in the tasks, in the forms and in the commands."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import ParamValidationError

from airflow_streaming.cli.main import main
from airflow_streaming.exceptions import SpecError
from airflow_streaming.operators.cutover_preflight import CutoverPreflightOperator
from airflow_streaming.operators.restore import CheckpointRestoreOperator
from airflow_streaming.operators.upgrade import UpgradeApprovalOperator, UpgradeStepOperator
from airflow_streaming.operators.upgrade_preflight import UpgradePreflightOperator
from airflow_streaming.options import (
    CutoverOptions,
    RehearsalOptions,
    RestartOptions,
    UpgradeOptions,
)
from airflow_streaming.orchestration.cutover_form import cutover_params
from airflow_streaming.orchestration.form import rescale_params, restore_params, upgrade_params
from airflow_streaming.orchestration.stream_dags import stream_dags
from airflow_streaming.spec import SoakTerms, StreamSpec

SPEC = StreamSpec(name="orders", application="orders.py", home="/home", runtime="spark-4.3")
ALL: dict[str, Any] = {
    "upgrade options": UpgradeOptions,
    "restart options": RestartOptions,
    "cutover options": CutoverOptions,
    "rehearsal options": RehearsalOptions,
    "dags": stream_dags,
    "upgrade form": upgrade_params,
    "rescale form": rescale_params,
    "restore form": restore_params,
    "cutover form": cutover_params,
    "upgrade": UpgradePreflightOperator,
    "approve": UpgradeApprovalOperator,
    "step": UpgradeStepOperator,
    "cutover": CutoverPreflightOperator,
    "restore": CheckpointRestoreOperator,
}
CHANGES = {"upgrade options", "restart options", "cutover options"}
NEW: list[tuple[str, set[str]]] = [
    ("accept", {*CHANGES, "upgrade", "cutover", "restore"}),
    (
        "approval",
        {*CHANGES, "dags", "upgrade form", "rescale form", "cutover form", "upgrade", "approve"}
        | {"cutover"},
    ),
    ("dry_run", {*CHANGES, "upgrade", "approve", "cutover", "restore"}),
    ("rewind", {"restore"}),
    ("rewind_with", {"upgrade options", "restart options", "upgrade", "step"}),
    ("soak", {*CHANGES, "dags", "upgrade", "cutover"}),
    ("soak_minutes", {"upgrade", "cutover"}),
    ("rehearsal_minutes", {"upgrade"}),
    ("passing", {"rehearsal options"}),
]
OLD = (
    *("accept_replay", "needs_rollback", "need_approval", "promote", "finalize"),
    *("rewind_sink", "rewind_sinks", "is_dry_run"),
)
STEPS = ("begin", "switch", "end")


def arguments(of: Any) -> set[str]:
    kinds = of.__mro__ if isinstance(of, type) else ()
    told = [kind.__init__ for kind in kinds if kind.__module__.startswith("airflow_streaming")]
    return {name for one in (told or [of]) for name in inspect.signature(one).parameters}


@pytest.mark.parametrize(("word", "places"), NEW, ids=[word for word, _ in NEW])
def test_a_word_is_taken_in_its_places_alone(word: str, places: set[str]) -> None:
    assert {place for place, of in ALL.items() if word in arguments(of)} == places


@pytest.mark.parametrize("word", OLD)
def test_an_earlier_word_is_gone(word: str) -> None:
    assert [place for place, of in ALL.items() if word in arguments(of)] == []
    assert [dag.dag_id for dag in stream_dags(SPEC).values() if word in dag.params] == []


@pytest.mark.parametrize("word", OLD)
def test_an_earlier_word_is_pythons_own_error(word: str) -> None:
    with pytest.raises((TypeError, SpecError), match=word):
        CutoverOptions(**{word: True})


@pytest.mark.parametrize(
    "words",
    [
        ["close-circuit", "orders"],
        ["checkpoint", "backup", "/cp", "--to", "/store"],
        ["checkpoint", "backup", "/cp", "--stream", "orders", "--store", "/store"],
        ["checkpoint", "restore", "/store", "id", "--stream", "orders", "--to", "/new"],
        ["checkpoint", "restore", "/store", "id", "--stream", "orders", "--rewind-sinks"],
        ["cutover", "retire", "orders", "--to", "/store"],
    ],
    ids=lambda words: " ".join(words[:2]) + " " + words[-2],
)
def test_an_earlier_option_is_the_commands_own_error(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 2


FORMS: dict[str, Any] = {
    "upgrade": lambda **more: upgrade_params(SPEC, **more),
    "rescale": rescale_params,
    "cutover": lambda **more: cutover_params(SPEC, **more),
}
USUAL = {
    ("upgrade", "begin"): "ask",
    ("rescale", "begin"): "auto",
    **{("cutover", step): word for step, word in zip(STEPS, ("ask", "ask", "auto"), strict=True)},
}


@pytest.mark.parametrize(("form", "step"), USUAL)
@pytest.mark.parametrize(
    ("given", "first", "choices"),
    [(None, None, ["ask", "auto"]), ("auto", "auto", ["ask", "auto"]), ("ask", "ask", ["ask"])],
    ids=["not said", "auto", "ask"],
)
def test_a_form_asks_for_more_approvals_than_the_author_and_never_for_fewer(
    form: str, step: str, given: str | None, first: str | None, choices: list[str]
) -> None:
    field = FORMS[form](approval=None if given is None else {step: given})[f"approval_{step}"]

    assert field.resolve() == (first or USUAL[form, step])
    assert field.schema["enum"] == choices


@pytest.mark.parametrize("form", FORMS)
def test_named_approvers_are_always_asked_before_the_begin(form: str) -> None:
    field: Param = FORMS[form](approvers=["ann"], approval={"begin": "auto"})["approval_begin"]

    with pytest.raises(ParamValidationError):
        field.resolve("auto")


LOOKS = {"upgrade": "upgrade", "rescale": "rescale", "cutover": "blue_green"}


def rendered(dags: Mapping[str, DAG], change: str, task: str, **typed: Any) -> Any:
    dag = dags[f"orders_{LOOKS[change]}"]
    params = {**{name: dag.params[name] for name in dag.params}, **typed}
    found: Any = dag.get_task(f"{LOOKS[change]}.{task}")
    found.body = ""
    found.render_template_fields({"params": params, "ti": None})
    return found


@pytest.mark.parametrize(("change", "step"), USUAL)
@pytest.mark.parametrize("author", [None, "auto", "ask"])
@pytest.mark.parametrize("typed", [None, "ask"])
def test_the_tasks_ask_by_the_form_and_by_the_author(
    change: str, step: str, author: str | None, typed: str | None
) -> None:
    dags = stream_dags(SPEC, approval={step: author} if author else None)  # type: ignore[misc]
    form = {f"approval_{step}": typed} if typed else {}

    task = rendered(dags, change, "approve" if step == "begin" else "preflight", **form)

    assert task.approval[step] == (typed or author or USUAL[change, step])


def test_an_ask_of_the_options_holds_whatever_a_run_sends() -> None:
    dags = stream_dags(SPEC, cutover=CutoverOptions(approval={"switch": "ask"}))

    look = rendered(dags, "cutover", "preflight", approval_switch="auto", approval_end="ask")

    assert look.approval == {"switch": "ask", "end": "ask"}


@pytest.mark.parametrize("change", LOOKS)
def test_codes_of_a_form_reach_the_preflight(change: str) -> None:
    look = rendered(
        stream_dags(SPEC), change, "preflight", accept=["live.older_spark", "live.dropped_conf"]
    )

    assert look.accept == "live.older_spark,live.dropped_conf"


@pytest.mark.parametrize(
    ("given", "hidden"),
    [
        ({}, set()),
        ({"dry_run": False}, {"dry_run"}),
        ({"accept": ["live.older_spark"]}, {"accept"}),
        ({"edits": {"runtime": "spark-4.3"}}, {"runtime", "application", "conf"}),
    ],
    ids=["nothing", "dry_run", "accept", "edits"],
)
def test_a_form_shows_no_field_that_the_options_replace(
    given: dict[str, Any], hidden: set[str]
) -> None:
    dags = stream_dags(
        SPEC, upgrade=UpgradeOptions(**given), cutover=CutoverOptions(replay_from="", **given)
    )
    usual = stream_dags(SPEC)

    for dag_id, gone in (
        ("orders_upgrade", hidden),
        ("orders_blue_green", {*hidden, "replay_from"}),
    ):
        assert set(usual[dag_id].params) - set(dags[dag_id].params) == gone


@pytest.mark.parametrize("change", LOOKS)
def test_the_soak_of_all_changes_is_given_once(change: str) -> None:
    terms = SoakTerms(at_most=timedelta(hours=1))

    look = rendered(stream_dags(SPEC, soak=terms), change, "preflight")

    soak = look.course.soak if change == "cutover" else look.soak
    assert (soak, look.soak_minutes) == (terms, "")


@pytest.mark.parametrize("typed", [False, True])
def test_a_restore_rewinds_where_the_form_says_so(typed: bool) -> None:
    dag = stream_dags(SPEC)["orders_restore"]
    task: Any = dag.get_task("restore")
    task.backup_id = None
    assert dag.params["rewind"] is False

    task.render_template_fields({"params": {"rewind": typed}, "ti": None})

    assert task.rewind == str(typed)
