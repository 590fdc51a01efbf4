"""What is known of a stream's newest driver, for whoever must not act while it may write."""

from __future__ import annotations

from airflow_streaming.core.checkpoint.refusal import DriverFate
from airflow_streaming.core.observation import ProcessState
from airflow_streaming.home.home import StreamHome
from airflow_streaming.launch.port import Launcher


def driver_fate(home: StreamHome, launcher: Launcher | None) -> tuple[DriverFate, str]:
    """
    Return whether the newest driver is gone, with the evidence in words.

    :param launcher: How its processes can be seen from here; ``None`` for nobody to look.
    """
    epoch = home.newest_epoch()
    if epoch is None:
        return DriverFate.NONE, ""
    death = home.death(epoch.number)
    if death is not None:
        return DriverFate.DEAD, death.evidence
    if launcher is None:
        return DriverFate.UNPROVED, "nobody looked"
    process = launcher.probe(epoch, home.launch(epoch.number))
    if process.state is ProcessState.GONE:
        return DriverFate.DEAD, process.detail
    if process.state is not ProcessState.UNSEEN:
        return DriverFate.ALIVE, process.detail
    if home.exit(epoch.number) is not None:
        # By its own word its queries have ended, and they alone write to a checkpoint.
        return DriverFate.DEAD, "it left its exit record"
    return DriverFate.UNPROVED, process.detail
