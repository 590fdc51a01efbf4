"""Pages wait for homes in threads of their own, and never longer than the deadline."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from airflow_streaming.exceptions import HomeUnavailable, LookRefused
from airflow_streaming.plugins.access.looks import Looks
from airflow_streaming.plugins.access.slots import Limits
from tests.patience import PATIENCE

BAD, GOOD = "s3://bad/streams", "s3://good/streams"
DEADLINE = 0.4


class Hang:
    """A look that hangs until it is told to end, and counts how often it was begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.is_begun = threading.Event()
        self.answers = threading.Event()
        self._threads: list[threading.Thread] = []

    def __call__(self) -> str:
        self.begun += 1
        self.is_begun.set()
        self._threads.append(threading.current_thread())
        self.answers.wait(60)
        return "at last"

    def end(self) -> None:
        self.answers.set()
        for thread in self._threads:
            thread.join(30)


@pytest.fixture
def hang() -> Iterator[Hang]:
    hang = Hang()
    yield hang
    hang.end()


def pool(**limits: int) -> Looks:
    return Looks(deadline=DEADLINE, limits=Limits(**limits))


async def refusal(looks: Looks, home: str, act: Callable[[], Any]) -> LookRefused:
    with pytest.raises(LookRefused) as caught:
        await looks.look(home, act)
    return caught.value


async def test_what_was_read_is_returned_and_what_went_wrong_is_raised() -> None:
    looks = pool()

    def fails() -> None:
        raise KeyError("a fault")

    assert await looks.look(GOOD, lambda: 17) == 17
    with pytest.raises(KeyError):
        await looks.look(GOOD, fails)


async def test_a_look_that_hangs_is_refused_at_the_deadline(hang: Hang) -> None:
    begun = time.monotonic()

    refused = await refusal(pool(), BAD, hang)

    assert time.monotonic() - begun >= DEADLINE
    assert refused.retry_after >= 1


async def test_a_home_that_hung_is_refused_at_once_and_others_are_not(
    hang: Hang,
) -> None:
    looks = pool(threads=2)
    await asyncio.gather(refusal(looks, BAD, hang), refusal(looks, BAD, hang))

    await asyncio.gather(*(refusal(looks, BAD, hang) for _ in range(20)))

    assert hang.begun == 2
    assert await looks.look(GOOD, lambda: 17) == 17


async def test_waiting_pages_are_served_as_threads_come_free() -> None:
    looks = Looks(deadline=PATIENCE, limits=Limits(threads=2, per_home=1))

    def slow() -> int:
        time.sleep(0.02)
        return threading.get_ident()

    found = await asyncio.gather(*(looks.look(f"home-{n % 3}", slow) for n in range(12)))

    assert len(found) == 12


async def test_a_home_that_comes_back_is_looked_at_again(hang: Hang) -> None:
    looks = pool()
    await refusal(looks, BAD, hang)

    hang.end()

    assert await looks.look(BAD, lambda: 17) == 17


async def test_a_home_that_fails_at_once_does_not_rest() -> None:
    looks = pool()

    def away() -> None:
        raise HomeUnavailable("It is away.")

    for _ in range(3):
        with pytest.raises(HomeUnavailable, match="It is away"):
            await looks.look(BAD, away)


async def test_a_look_that_has_ended_does_not_count_as_one_that_hangs() -> None:
    now = [0.0]
    looks = Looks(deadline=PATIENCE, clock=lambda: now[0])

    assert await looks.look(GOOD, lambda: 17) == 17
    now[0] += 2 * PATIENCE

    assert await looks.look(GOOD, lambda: 18) == 18


async def test_a_page_that_is_left_does_not_keep_its_thread_for_good(
    hang: Hang,
) -> None:
    looks = pool(threads=1, per_home=1)
    page = asyncio.create_task(looks.look(BAD, hang))
    await asyncio.sleep(0.05)
    page.cancel()
    await asyncio.sleep(DEADLINE)

    assert await looks.look(GOOD, lambda: 17) == 17


async def test_a_crowd_at_a_home_that_hangs_leaves_other_routes_fast(
    hang: Hang,
) -> None:
    app, looks = FastAPI(), Looks(deadline=4)

    @app.get("/page")
    async def page() -> str:
        try:
            return await looks.look(BAD, hang)
        except LookRefused:
            return "refused"

    @app.get("/version")
    def version() -> str:
        return "3.3"

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://test"
    ) as client:
        pages = [asyncio.create_task(client.get("/page")) for _ in range(45)]
        await asyncio.to_thread(hang.is_begun.wait, 30)
        replies = [await client.get("/version") for _ in range(5)]
        are_waiting = not any(page.done() for page in pages)
        refused = await asyncio.gather(*pages)

    assert {reply.status_code for reply in replies} == {200}
    assert are_waiting
    assert {reply.json() for reply in refused} == {"refused"}
    assert hang.begun == 2
