"""A stream as an asset: one definition everywhere, and no event told twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.module_loading import import_string
from airflow.serialization.decoders import smart_decode_trigger_kwargs
from airflow.serialization.encoders import encode_asset_like
from airflow.triggers.base import BaseEventTrigger

from airflow_streaming.assets import stream_asset
from airflow_streaming.exceptions import SpecError
from airflow_streaming.triggers import asset as asset_trigger
from airflow_streaming.triggers.asset import StreamEventTrigger
from tests.patience import PATIENCE
from tests.unit.sensors.gates import BEGUN, a_batch, beating, commit
from tests.unit.supervision.checkpoints import Checkpoint
from tests.unit.two_lanes import TwoLanes
from tests.unit.world import World


class Store:
    """What Airflow keeps of assets."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.trouble: Exception | None = None

    def __getitem__(self, asset: Any) -> Store:
        assert asset.name == "orders.watermark" or asset.name.endswith(
            (".state", ".batch", ".live")
        )
        return self

    async def aget(self, key: str) -> Any:
        if self.trouble is not None:
            raise self.trouble
        return self.kept.get(key)

    async def aset(self, key: str, value: Any) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.kept[key] = value


@pytest.fixture(autouse=True)
def delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asset_trigger, "DELIVERY", 0.0)


def trigger_of(asset: Asset, store: Store | None = None) -> Any:
    """Return the trigger as a triggerer makes it."""
    (watcher,) = asset.watchers
    path, kwargs = watcher.trigger.serialize()
    trigger = import_string(path)(**kwargs)
    trigger.poll_seconds = 0.02
    trigger.asset_state_store = store
    return trigger


def of_world(world: World, **asked: Any) -> Asset:
    return stream_asset("orders", world.uri, **asked)


@contextlib.asynccontextmanager
async def running(trigger: Any) -> AsyncIterator[Any]:
    """Yield a function that waits for the next event."""
    events = trigger.run()

    async def next_event() -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            payload: dict[str, Any] = (await anext(events)).payload
            return payload

    try:
        yield next_event
    finally:
        await events.aclose()


async def is_silent(trigger: Any, looks: int = 4) -> bool:
    """Let the trigger look some times; tell whether it said nothing."""
    seen, look = [], trigger.look_once

    def counted() -> Any:
        seen.append(look())
        return seen[-1]

    trigger.look_once = counted
    telling = asyncio.create_task(anext(trigger.run()))
    async with asyncio.timeout(PATIENCE):
        while len(seen) < looks and not telling.done():  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.01)
    silent = not telling.done()
    telling.cancel()
    await asyncio.wait([telling])
    return silent


async def test_a_watermark_that_advances_is_an_event(world: World) -> None:
    world.run()
    commit(world, a_batch(7, watermark=BEGUN))
    trigger = trigger_of(of_world(world), Store())
    async with running(trigger) as next_event:
        first = await next_event()
        assert first["complete_until"].startswith("2026-11-21T12:00")

        commit(world, a_batch(8, watermark=BEGUN + timedelta(minutes=150)), beat=2)
        second = await next_event()

    assert (first["sequence"], second["sequence"]) == (1, 2)
    assert (second["stream"], second["query"], second["epoch"]) == ("orders", "revenue", 1)
    assert second["batch_id"] == 8
    assert second["complete_from"].startswith("2026-11-21T12:00")
    assert second["complete_until"].startswith("2026-11-21T14:00")
    assert second["watermark"].startswith("2026-11-21T14:30")


async def test_a_stream_without_a_watermark_says_why_its_asset_is_silent(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.run()
    commit(world, a_batch(7))

    assert await is_silent(trigger_of(of_world(world), Store()))

    said = capsys.readouterr().out
    assert said.count("has no event") == 1, "one line for one reason"
    assert "No checked query of stream 'orders' has a watermark ('revenue')." in said


async def test_a_triggerer_that_takes_over_tells_nothing_again(world: World) -> None:
    store = Store()
    world.run()
    commit(world, a_batch(7, watermark=BEGUN))
    asset = of_world(world)
    first = trigger_of(asset, store)
    async with running(first) as next_event:
        assert (await next_event())["sequence"] == 1
        telling = asyncio.create_task(next_event())
        async with asyncio.timeout(PATIENCE):
            while store.kept["streaming.watermark"]["pending"]:  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.01)
        telling.cancel()
        await asyncio.wait([telling])
    assert list(store.kept) == ["streaming.watermark"]

    second = trigger_of(asset, store)
    assert await is_silent(second)

    commit(world, a_batch(8, watermark=BEGUN + timedelta(hours=1)), beat=2)
    third = trigger_of(asset, store)
    async with running(third) as next_event:
        assert (await next_event())["sequence"] == 2


async def test_one_that_died_before_the_delivery_is_followed_by_the_same_event(
    world: World,
) -> None:
    store = Store()
    world.run()
    commit(world, a_batch(7, watermark=BEGUN))
    asset = of_world(world)
    async with running(trigger_of(asset, store)) as next_event:
        told = await next_event()

    commit(world, a_batch(8, watermark=BEGUN + timedelta(hours=1)), beat=2)
    async with running(trigger_of(asset, store)) as next_event:
        assert await next_event() == told
        after = await next_event()

    assert (after["sequence"], after["complete_from"]) == (2, told["complete_until"])


async def test_nothing_is_told_while_it_is_not_known_what_was_told(world: World) -> None:
    store = Store()
    store.trouble = RuntimeError("the API server is away")
    world.run()
    commit(world, a_batch(7, watermark=BEGUN))
    trigger = trigger_of(of_world(world), store)
    async with running(trigger) as next_event:
        telling = asyncio.create_task(next_event())
        async with asyncio.timeout(PATIENCE):
            while trigger._trouble is None:  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.01)
        assert "the API server is away" in trigger._trouble
        assert not telling.done()

        store.trouble = None

        assert (await telling)["sequence"] == 1


async def test_nothing_is_told_that_could_not_be_kept(world: World) -> None:
    store = Store()
    world.run()
    commit(world, a_batch(7, watermark=BEGUN))
    trigger = trigger_of(of_world(world), store)
    async with running(trigger) as next_event:
        await next_event()
        store.trouble = RuntimeError("the API server is away")
        commit(world, a_batch(8, watermark=BEGUN + timedelta(hours=1)), beat=2)
        telling = asyncio.create_task(next_event())
        async with asyncio.timeout(PATIENCE):
            while trigger._trouble is None:  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.01)
        assert not telling.done()

        store.trouble = None

        assert (await telling)["sequence"] == 2


async def test_a_state_is_an_event_when_it_has_changed(world: World) -> None:
    world.run()
    trigger = trigger_of(of_world(world, on="state"), Store())
    async with running(trigger) as next_event:
        with beating(world, a_batch(7)):
            well = await next_event()
        world.crash()
        dead = await next_event()

    assert (well["topic"], well["state"], well["previous"]) == ("state", "healthy", None)
    assert (dead["state"], dead["previous"], dead["sequence"]) == ("dead", "healthy", 2)
    assert "left no exit record" in dead["reason"]


async def test_a_foreign_stream_is_an_asset_too(world: World) -> None:
    foreign = Checkpoint(world.folder / "checkpoint")
    foreign.run(1)
    asset = stream_asset(checkpoint=str(foreign.folder), on="batch", every=timedelta(seconds=10))
    trigger = trigger_of(asset, Store())
    async with running(trigger) as next_event:
        assert (await next_event())["batch_id"] == 1
        foreign.run(2)
        event = await next_event()

    assert (event["batch_id"], event["stream"], event["epoch"]) == (2, str(foreign.folder), None)


async def test_a_watcher_that_cannot_look_complains_and_goes_on(world: World) -> None:
    asset = stream_asset(checkpoint=str(world.folder), endpoint="http://nobody:4040", on="state")
    trigger = trigger_of(asset, Store())

    async with running(trigger) as next_event:
        telling = asyncio.create_task(next_event())
        async with asyncio.timeout(PATIENCE):
            while trigger._trouble is None:  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.01)
        assert "metrics_endpoints" in trigger._trouble
        assert not telling.done()
        telling.cancel()
        await asyncio.wait([telling])


ASKED: list[dict[str, Any]] = [
    {"stream": "orders", "home": "/data/Streams"},
    {"stream": "orders", "home": "/data/Streams", "on": "state"},
    {"stream": "orders", "home": "s3://Bucket/streams/", "query": "a b"},
    {"stream": "orders", "home": "file:///data/streams", "home_conn_id": "c"},
    {"checkpoint": "s3a://bucket/checkpoints/", "on": "batch", "conn_id": "lake"},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_it_is_the_same_at_every_parse(asked: dict[str, Any]) -> None:
    assert encode_asset_like(stream_asset(**asked)) == encode_asset_like(stream_asset(**asked))


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_its_trigger_is_found_again_in_the_database(asked: dict[str, Any]) -> None:
    parsed = encode_asset_like(stream_asset(**asked))["watchers"][0]["trigger"]
    stored = {name: smart_decode_trigger_kwargs(kw) for name, kw in parsed["kwargs"].items()}
    loaded = import_string(parsed["classpath"])(**stored)

    path, kwargs = loaded.serialize()

    assert (path, kwargs) == stream_asset(**asked).watchers[0].trigger.serialize()
    assert BaseEventTrigger.hash(path, kwargs) == BaseEventTrigger.hash(**parsed)


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_its_uri_is_spelled_as_airflow_spells_it(asked: dict[str, Any]) -> None:
    uri = stream_asset(**asked).uri

    assert Asset(name="again", uri=uri).uri == uri


def test_what_differs_has_another_name_and_another_uri() -> None:
    assets = [stream_asset(**asked) for asked in ASKED]

    assert len({asset.uri for asset in assets}) == len(ASKED)
    assert stream_asset("orders", "/h", on="state").name == "orders.state"
    assert stream_asset("orders", "/h", query="raw").name == "orders.raw.watermark"
    assert stream_asset("orders", "/h", name="mine").watchers[0].name == "mine"


def test_a_bare_asset_has_no_watcher() -> None:
    assert stream_asset("orders", "/h", watch=False).watchers == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "The stream is missing"),
        ({"stream": "orders", "home": "/h", "checkpoint": "/c"}, "named in two ways"),
        ({"stream": "../orders", "home": "/h"}, "orders"),
        ({"stream": "orders", "home": "{{ var.value.home }}"}, "is relative"),
        ({"stream": "orders", "home": "/h", "on": "tuesdays"}, "no events on 'tuesdays'"),
        ({"stream": "orders", "home": "/h", "every": timedelta(0)}, "every is 0 s"),
    ],
)
def test_what_cannot_be_breaks_the_dag(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        stream_asset(**asked)


def test_no_secret_is_in_its_arguments() -> None:
    with pytest.raises(SpecError, match="credentials"):
        stream_asset("orders", "s3://key:secret@bucket/streams")
    assert isinstance(stream_asset("o", "/h").watchers[0].trigger, StreamEventTrigger)


async def test_the_live_output_is_an_event_and_says_whose_it_is(world: World) -> None:
    world.run()
    trigger = trigger_of(of_world(world, on="live"), Store())
    async with running(trigger) as next_event:
        told = await next_event()

    deployment = world.home.newest_deployment()
    assert deployment is not None
    assert (told["stream"], told["lane"], told["color"]) == ("orders", "orders", "blue")
    assert (told["output"], told["previous_output"]) == (deployment.output, None)


async def test_a_cutover_is_an_event_with_both_outputs(world: World) -> None:
    world.run()
    blue = world.home.newest_deployment()
    two = TwoLanes(world)
    green = two.start_green()
    trigger = trigger_of(of_world(world, on="live"), Store())
    async with running(trigger) as next_event:
        assert (await next_event())["lane"] == "orders"
        two.whole()
        told = await next_event()

    assert blue is not None
    assert (told["lane"], told["color"], told["sequence"]) == ("orders.green", "green", 2)
    assert (told["output"], told["previous_output"]) == (green.output, blue.output)


def test_a_foreign_stream_has_no_lanes_to_tell_of() -> None:
    with pytest.raises(SpecError, match="Only a stream of this provider has lanes"):
        stream_asset(checkpoint="/lake/checkpoint", on="live")
