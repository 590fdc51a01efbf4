from __future__ import annotations

import threading

import pytest

from airflow_streaming.driver.jvm import JvmProcess
from airflow_streaming.driver.shutdown import HardExit
from tests.patience import PATIENCE


class Left(BaseException):
    """The process would have ended."""


class Jvm(JvmProcess):
    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self._seen = seen

    def kill(self) -> None:
        self._seen.append("killed")


class World:
    """A process that would end; what happens to it is noted in its order."""

    def __init__(self, *, store_needs_jvm: bool) -> None:
        self.seen: list[str] = []
        self.leaving = HardExit(Jvm(self.seen), store_needs_jvm=store_needs_jvm, leave=self._leave)

    def leave(self, word: str = "said") -> None:
        with pytest.raises(Left):
            self.leaving.at_once(lambda: self.seen.append(word), lambda: 7)

    def _leave(self, code: int) -> None:
        self.seen.append(f"left with {code}")
        raise Left


@pytest.mark.parametrize(
    ("store_needs_jvm", "first"),
    [
        pytest.param(False, ["killed", "said"], id="a home on this host"),
        pytest.param(True, ["said"], id="a home that is reached through it"),
    ],
)
def test_the_jvm_is_killed_before_the_word_where_the_word_does_not_need_it(
    store_needs_jvm: bool, first: list[str]
) -> None:
    world = World(store_needs_jvm=store_needs_jvm)
    world.leave()
    assert world.seen == [*first, "killed", "left with 7"]


def test_a_word_that_cannot_be_said_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_streaming.driver.shutdown._MARGIN", 0.01)
    world, never = World(store_needs_jvm=False), threading.Event()
    with pytest.raises(Left):
        world.leaving.at_once(never.wait, lambda: 7)
    never.set()
    assert world.seen[-1] == "left with 7"


def test_the_word_of_the_first_thread_counts() -> None:
    world, saying, go_on = World(store_needs_jvm=False), threading.Event(), threading.Event()

    def say() -> None:
        saying.set()
        go_on.wait(PATIENCE)
        world.seen.append("cut off")

    def first() -> None:
        with pytest.raises(Left):
            world.leaving.at_once(say, lambda: 0)

    threads = [threading.Thread(target=work) for work in (first, lambda: world.leave("gone"))]
    threads[0].start()
    assert saying.wait(PATIENCE)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert [word for word in world.seen if word != "killed"][:2] == ["cut off", "left with 0"]
