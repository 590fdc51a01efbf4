"""A hot standby takes over: live and waiting drivers are killed in every order, and no row is lost."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_streaming.launch.cluster_policy import ask_recorded
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.launch.registry import open_launcher
from airflow_streaming.model.observation import ProcessState
from airflow_streaming.model.records.epoch import Epoch, Outcome
from airflow_streaming.services import streams
from tests.integration.stream.conftest import UNBOUNDED, KeptStream, RealStream
from tests.patience import until


class HotStream(KeptStream):
    """A stream with a hot standby."""

    def __init__(self, real: RealStream) -> None:
        super().__init__(real, standby=True, restart=UNBOUNDED)

    def standby(self) -> Epoch | None:
        return self.home.standbys().newest_epoch()

    def is_warm(self, number: int) -> bool:
        standbys = self.home.standbys()
        status = standbys.status(number) if self.number() >= number else None
        return status is not None and status.standby and standbys.barrier(number) is not None

    def number(self) -> int:
        standby = self.standby()
        return standby.number if standby is not None else 0

    def settle(self, *, epoch: int, standby: int) -> None:
        """Wait until an epoch commits, with a warm standby beside it."""
        self.keep_until(
            lambda: self.real.batches(epoch) >= 3 and self.is_warm(standby),
            f"batches of epoch {epoch} beside standby {standby}",
        )
        assert (self.real.epochs(), self.number()) == (epoch, standby)

    def kill_live(self) -> None:
        self._kill(self.home, self.real.epochs())
        self.rows()

    def rows(self) -> int:
        """Check that the output has every row once, while nothing writes; return how many."""
        rows = self.real.numbers()
        assert rows == list(range(len(rows)))
        return len(rows)

    def kill_standby(self) -> None:
        self._kill(self.home.standbys(), self.number())

    def _kill(self, home: Any, number: int) -> None:
        launch = home.launch(number)
        os.killpg(int(launch.handle["pid"]), signal.SIGKILL)
        launcher, epoch = open_launcher(policy=ask_recorded), home.epoch(number)
        # By its launch too, as the stream looks: which processes are there is known for two seconds.
        looks = [lambda known=known: launcher.probe(epoch, known).state for known in (launch, None)]
        until(lambda: all(look() is ProcessState.GONE for look in looks), f"death of {number}")

    def end(self) -> None:
        for home in (self.home, self.home.standbys()):
            for number in home.epoch_numbers():
                launch = home.launch(number)
                if launch is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(int(launch.handle["pid"]), signal.SIGKILL)


@pytest.fixture
def hot(real: RealStream) -> Iterator[HotStream]:
    stream = HotStream(real)
    yield stream
    stream.end()


def test_a_standby_becomes_the_driver_of_a_killed_one_and_no_row_is_lost_or_doubled(
    hot: HotStream,
) -> None:
    home = hot.home
    hot.settle(epoch=1, standby=1)

    hot.kill_live()
    hot.settle(epoch=2, standby=2)

    promoted = home.epoch(2)
    assert (promoted.promotes, promoted.token) == (1, home.standbys().epoch(1).token)
    gone = home.standbys().exit(1)
    assert gone is not None
    assert gone.outcome is Outcome.COMPLETED
    stop_and_count(hot, epoch=2, standby=2)


@pytest.mark.nightly("Seven drivers and standbys are killed.")
def test_drivers_are_killed_in_every_order_and_no_row_is_lost_or_doubled(hot: HotStream) -> None:
    real, home = hot.real, hot.home
    hot.settle(epoch=1, standby=1)
    hot.kill_live()
    hot.settle(epoch=2, standby=2)

    hot.kill_standby()
    hot.settle(epoch=2, standby=3)

    hot.kill_live()
    hot.kill_standby()
    hot.settle(epoch=3, standby=4)
    assert home.epoch(3).promotes is None

    hot.kill_standby()
    hot.kill_live()
    hot.settle(epoch=4, standby=5)
    assert home.epoch(4).promotes is None

    hot.kill_live()
    hot.keep_until(lambda: real.epochs() == 5, "the promotion")
    hot.kill_live()
    hot.settle(epoch=6, standby=6)
    assert (home.epoch(5).promotes, home.epoch(6).promotes) == (5, None)
    stop_and_count(hot, epoch=6, standby=6)


def stop_and_count(hot: HotStream, *, epoch: int, standby: int) -> None:
    """Stop the stream, see both processes end, and compare the rows of the output with the commits."""
    real, home = hot.real, hot.home
    streams.stop(home, by="a test", reason="It has seen enough.")
    real.until(lambda: real.is_gone(epoch), "the end of the driver")
    launcher, waiting = LocalLauncher(), home.standbys().epoch(standby)
    real.until(
        lambda: launcher.probe(waiting, None).state is ProcessState.GONE, "the end of the standby"
    )

    # Spark keeps the newest commits only, and a stop may come between the sink's commit and Spark's.
    commits = sorted(real.commits())
    assert commits == list(range(commits[0], commits[-1] + 1))
    assert hot.rows() - 10 * (commits[-1] + 1) in (0, 10)
