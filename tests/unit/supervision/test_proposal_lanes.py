"""What a lane's keeper proposes, and a driver that is told to wait at the barrier."""

from __future__ import annotations

from typing import Any

from airflow_streaming.advice.profile import production
from airflow_streaming.model.records.epoch import LaunchCause
from airflow_streaming.supervision.decide import Action, Step
from tests.unit.two_lanes import GREEN, TwoLanes, lane
from tests.unit.world import World

PARTITIONS = "spark.sql.shuffle.partitions"


def propose(world: World, spec: dict[str, Any], **told: Any) -> Any:
    hook = world.operator(**spec).open_hook(world.context()).lane(GREEN)
    runtime, source = hook.runtime("spark-4.3"), world.script.read_bytes()
    return hook.controller.propose(runtime, str(world.script), source, **told)


def test_each_fresh_deployment_has_places_of_its_own(world: World) -> None:
    world.run()
    first = TwoLanes(world).start_green()

    second = propose(world, {}, fresh=True)

    assert (first.number, second.number) == (1, 2)
    assert (first.output != second.output, first.checkpoint != second.checkpoint) == (True, True)


def test_one_that_is_not_fresh_goes_on_where_the_lane_is(world: World) -> None:
    world.run()
    first = TwoLanes(world).start_green()

    second = propose(world, {})

    assert (second.output, second.checkpoint) == (first.output, first.checkpoint)
    assert second.fingerprint == first.fingerprint


def test_a_checkpoint_that_goes_on_in_another_lane_keeps_what_a_profile_may_not_change(
    world: World,
) -> None:
    spec = {"profile": production(cores=8)}
    world.run(world.operator(**spec))
    blue = world.home.newest_deployment()
    assert blue is not None
    carried = {**blue.conf, PARTITIONS: "7"}

    assert propose(world, spec, fresh=True).conf[PARTITIONS] != "7"
    assert propose(world, spec, fresh=True, carried_on=carried).conf[PARTITIONS] == "7"


def test_a_standby_driver_is_recorded_as_one(world: World) -> None:
    world.run()
    TwoLanes(world).start_green()
    world.lane = GREEN
    world.crash()
    hook = world.operator().open_hook(world.context()).lane(GREEN)
    step = Step(action=Action.LAUNCH, reason="It is warmed.", cause=LaunchCause.CUTOVER)

    epoch = hook.controller.begin(hook.observer().situation(), step, change=1, standby=True)

    assert epoch is not None
    assert lane(world, GREEN).epoch(2).standby
    assert not lane(world, GREEN).epoch(1).standby
