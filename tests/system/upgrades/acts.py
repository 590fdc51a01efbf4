"""What happens to the stream, one act after the other; each returns what was checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from airflow_streaming.model.records.upgrade_table import Stage
from demo.story import Check
from tests.system.upgrades import kills
from tests.system.upgrades.applications import BAD
from tests.system.upgrades.browser import person
from tests.system.upgrades.play import APPROVE, DAG, UPGRADE, Ended, Play, standstill

NEW: Final = "spark-4.3"
_CONF: Final = 'conf={"spark.sql.shuffle.partitions": 2}'


def good_upgrade(play: Play, browser: str | None, pictures: Path) -> list[Check]:
    """Go to the newer Spark, by hand in a browser where there is one; it has to be kept."""
    old = _epoch(play)
    run = _by_hand(play, browser, pictures) if browser else _by_api(play, runtime=NEW)
    ended = play.end(run)
    if browser:
        with person(play.stage.airflow.url, pictures, browser) as someone:
            someone.graph(UPGRADE, run, "08_end")
    checks = [_check("3.5 to 4.3, approved", ended, Stage.KEPT)]
    checks.append(_seconds("seconds without a commit: upgrade", play, old))
    # What was kept is written into the dag, or it goes on proposing what was before.
    play.edit_dag('runtime="spark-3.5"', f'runtime="{NEW}"')
    return checks


def _by_hand(play: Play, browser: str, pictures: Path) -> str:
    with person(play.stage.airflow.url, pictures, browser) as someone:
        someone.start_upgrade(UPGRADE, NEW)
        run = play.newest_run()
        play.question(run)
        someone.approve(UPGRADE, run, APPROVE)
        play.until(
            lambda: play.task_states(run)["upgrade.soak"] in ("running", "deferred"), "the soak"
        )
        someone.graph(UPGRADE, run, "07_soak")
    return run


def _by_api(play: Play, **form: object) -> str:
    run = play.ask(**form)
    play.answer(run, "Approve")
    return run


def plain_restart(play: Play) -> list[Check]:
    """Apply an edited configuration without any gate: what the upgrade is compared with."""
    old = _epoch(play)
    play.edit_dag(_CONF, _CONF.replace("}", ', "spark.ui.retainedJobs": 50}'))
    play.stage.airflow.trigger(DAG, restart=True)
    play.until(lambda: _epoch(play) > old and play.stage.stream.is_well(), "the restarted stream")
    return [_seconds("seconds without a commit: plain stop and start", play, old)]


def no_and_silence(play: Play) -> list[Check]:
    """A person says no, and nobody says anything: nothing may have been done."""
    form = {"runtime": NEW, "conf": {"spark.ui.retainedStages": 70}}
    before = _standing(play)
    run = play.ask(**form)
    play.answer(run, "Reject")
    told = [_untouched(play, "a person says no", play.end(run), before)]
    play.edit_dag("APPROVAL_S = 600", "APPROVAL_S = 15")
    run = play.ask(**form)
    told.append(_untouched(play, "nobody answers in time", play.end(run), before))
    play.edit_dag("APPROVAL_S = 15", "APPROVAL_S = 600")
    return told


def bad_applications(play: Play) -> list[Check]:
    """Upgrade to every bad application: each has to be taken back by itself."""
    # Waiting files are counted every 30 s, and Spark's own start takes its time.
    play.edit_dag("SOAK_AT_LEAST_S = 10", "SOAK_AT_LEAST_S = 120")
    checks = [_bad(play, name) for name in BAD]
    play.edit_dag("SOAK_AT_LEAST_S = 120", "SOAK_AT_LEAST_S = 10")
    return checks


def _bad(play: Play, name: str) -> Check:
    run = _by_api(
        play,
        runtime=NEW,
        application=str(play.folder / "bad" / f"{name}.py"),
        soak_minutes=BAD[name].soak_minutes,
    )
    ended = play.end(run)
    play.until(play.stage.stream.is_well, "the old application to work again")
    check = _check(f"bad application: {name}", ended, Stage.ROLLED_BACK)
    if BAD[name].says in ended.reasons and ended.state == "failed":
        return check
    return Check(what=check.what, seen=ended.reasons, holds=False)


def killed(play: Play) -> list[Check]:
    """Kill workers, tasks and the scheduler at the tasks of upgrades: the ends are the same."""
    worker, task = kills.worker(play), kills.task(play)
    return [
        *_killed_at(play, "workers", worker, 61, ("preflight", "back_up", "switch", "settle")),
        *_killed_at(play, "tasks", task, 62, ("back_up", "switch", "soak", "settle")),
        *_killed_at(play, "schedulers", kills.scheduler(play), 63, ("switch", "soak")),
        *_rollback_killed(play, task),
    ]


def _killed_at(
    play: Play, what: str, kill: Callable[[str], str | None], jobs: int, tasks: tuple[str, ...]
) -> Iterator[Check]:
    run = play.ask(runtime=NEW, conf={"spark.ui.retainedJobs": jobs})
    is_asked, told, hits = False, list[str](), 0
    for name in tasks:
        if name != "preflight" and not is_asked:
            play.answer(run, "Approve")
            is_asked = True
        hit = kills.kill_at(play, run, name, kill)
        hits += hit is not None
        told.append(f"{name}: {hit or 'too late'}")
    ended = play.end(run)
    deployment = play.home.newest_deployment()
    is_new = deployment is not None and deployment.conf["spark.ui.retainedJobs"] == str(jobs)
    check = _check(f"killed {what}", ended, Stage.KEPT)
    seen = f"{check.seen}; {', '.join(told)}"
    yield Check(what=check.what, seen=seen, holds=check.holds and is_new and hits > 0)


def _rollback_killed(play: Play, kill: Callable[[str], str | None]) -> Iterator[Check]:
    name = "fails_after_3_batches"
    run = _by_api(play, runtime=NEW, application=str(play.folder / "bad" / f"{name}.py"))
    for _ in range(2):
        kills.kill_at(play, run, "settle", kill)
    ended = play.end(run)
    play.until(play.stage.stream.is_well, "the old application to work again")
    yield _check("killed tasks at settle, while rolling back", ended, Stage.ROLLED_BACK)


def compared(play: Play) -> list[Check]:
    """Compare all rows with a batch run of the good application."""
    rows = play.finish()
    differs = rows["lost"] or rows["doubled"] or rows["wrong"]
    seen = "{found} rows of {expected}, {lost} lost, {doubled} doubled, {wrong} wrong {examples}"
    return [
        Check(
            what="output equals a batch run",
            seen=seen.format(**rows),
            holds=not differs and rows["expected"] > 0,
        ),
        Check(
            what="drivers alive at once",
            seen=f"at most {play.stage.drivers.most} in {play.stage.drivers.looks} looks",
            holds=play.stage.drivers.most == 1,
        ),
    ]


def _check(what: str, ended: Ended, wanted: Stage) -> Check:
    is_it = ended.stage is wanted and (ended.state == "success") is (wanted is Stage.KEPT)
    stage = "nothing begun" if ended.stage is None else ended.stage.value
    seen = (
        f"{stage}, run {ended.state}" if is_it else f"{stage}, run {ended.state}: {ended.reasons}"
    )
    return Check(what=what, seen=seen, holds=is_it)


def _seconds(what: str, play: Play, old: int) -> Check:
    stood = standstill(play.home, old, _epoch(play))
    seen = f"{stood.whole:.1f} s, {stood.launched:.1f} s until the new driver was started"
    return Check(what=what, seen=seen, holds=True)


def _untouched(play: Play, what: str, ended: Ended, before: tuple[int, ...]) -> Check:
    is_same = ended.stage is None and _standing(play) == before
    return Check(what=what, seen=f"run {ended.state}, nothing touched", holds=is_same)


def _standing(play: Play) -> tuple[int, ...]:
    deployment = play.home.newest_deployment()
    number = 0 if deployment is None else deployment.number
    return number, _epoch(play), len(play.home.changes())


def _epoch(play: Play) -> int:
    epoch = play.home.newest_epoch()
    return 0 if epoch is None else epoch.number
