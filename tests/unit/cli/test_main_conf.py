from __future__ import annotations

import json

import pytest

from airflow_streaming.cli.main import main
from airflow_streaming.home.home import StreamHome
from tests.unit.cli.host import Run

ASKED = ("conf", "--spark", "4.3", "--cores", "8")
PARTITIONS = "spark.sql.shuffle.partitions"


class TestConf:
    def test_it_shows_key_value_source_and_reason_without_a_home(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.delenv("AIRFLOW_STREAMING_HOME", raising=False)

        code = main(ASKED)

        lines = capsys.readouterr().out.splitlines()
        assert code == 0
        assert lines[0] == "Profile production for 8 cores on Spark 4.3: 12 values."
        assert lines[2].split() == ["key", "value", "from", "why"]
        found = next(i for i, line in enumerate(lines) if line.startswith(f"{PARTITIONS} *"))
        assert lines[found].split()[:4] == [PARTITIONS, "*", "8", "profile"]
        assert "  1 per core for 8 cores." in lines[found]
        assert "* Pinned: counts for new checkpoints only." in "\n".join(lines)

    def test_a_value_of_the_streams_own_is_shown_with_what_it_replaces(self, run: Run) -> None:
        code, out, _ = run(*ASKED, "--set", f"{PARTITIONS}=24", "--set", "spark.a=b=c")

        assert code == 0
        line = next(line for line in out.splitlines() if line.startswith(PARTITIONS))
        assert "24 " in line
        assert "  stream over profile (profile: 8)  " in line
        assert next(line for line in out.splitlines() if line.startswith("spark.a")).split()[
            1:3
        ] == [
            "b=c",
            "stream",
        ]

    def test_a_secret_is_not_repeated(self, run: Run) -> None:
        _, out, _ = run(*ASKED, "--set", "spark.hadoop.fs.s3a.secret.key=hunter2")
        _, as_json, _ = run(*ASKED, "--json", "--set", "spark.hadoop.fs.s3a.secret.key=hunter2")

        assert "hunter2" not in out + as_json
        assert "(redacted)" in out

    def test_json_has_every_value_whole(self, run: Run) -> None:
        code, out, _ = run(*ASKED, "--state-store", "hdfs", "--json")

        told = json.loads(out)
        assert (code, told["profile"], told["cores"], told["fair_pools"]) == (
            0,
            "production",
            8,
            True,
        )
        by_key = {value["key"]: value for value in told["values"]}
        assert by_key[PARTITIONS] == {
            "key": PARTITIONS,
            "value": "8",
            "source": "profile",
            "replaces": None,
            "pinned": True,
            "why": by_key[PARTITIONS]["why"],
        }
        left_out = by_key["spark.sql.streaming.stateStore.checkpointFormatVersion"]
        assert (left_out["value"], left_out["source"]) == (None, "left out")

    def test_for_a_newer_spark_it_says_whose_profile_it_shows(self, run: Run) -> None:
        newer = ("conf", "--spark", "9.9", "--cores", "8")
        code, out, _ = run(*newer)
        told, known = json.loads(run(*newer, "--json")[1]), json.loads(run(*ASKED, "--json")[1])

        assert code == 0
        assert out.startswith("Spark 9.9 is newer than any that this release knows: this is the")
        assert (told["spark"], told["profile_of"]) == ("9.9", "4.3")
        assert told["values"] == known["values"]

    def test_a_patch_release_is_no_newer_spark(self, run: Run) -> None:
        assert run("conf", "--spark", "4.3.7", "--cores", "8")[1].startswith("Profile production")

    def test_for_a_stream_it_shows_what_the_checkpoint_keeps(
        self, run: Run, stream: StreamHome
    ) -> None:
        code, out, _ = run(*ASKED, "orders")

        assert code == 0
        line = next(line for line in out.splitlines() if line.startswith(PARTITIONS))
        assert "  2      kept with the checkpoint (profile: 8)  " in line

    def test_an_unknown_stream_is_a_problem(self, run: Run, stream: StreamHome) -> None:
        assert run(*ASKED, "oders")[0] == 1

    @pytest.mark.parametrize(
        "arguments",
        [
            pytest.param(["conf", "--cores", "8"], id="no version"),
            pytest.param(["conf", "--spark", "4.3"], id="no cores"),
            pytest.param([*ASKED, "--set", "spark.a"], id="no value"),
            pytest.param([*ASKED, "--set", "master=local"], id="no key of Spark's"),
            pytest.param([*ASKED, "--state-store", "redis"], id="no state store"),
        ],
    )
    def test_wrong_use_exits_with_2(self, run: Run, arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as raised:
            run(*arguments)

        assert raised.value.code == 2

    @pytest.mark.parametrize(
        ("spark", "cores", "sentence"),
        [
            ("spark", "8", "'spark' is not a Spark version."),
            ("2.1", "8", "Spark 2.1 is older than 3.5, the oldest version that this release runs"),
            ("3.4.9", "8", "Give a version from 3.5 to 4.3."),
        ],
    )
    def test_a_value_that_cannot_be_is_wrong_use(
        self, run: Run, spark: str, cores: str, sentence: str
    ) -> None:
        code, _, err = run("conf", "--spark", spark, "--cores", cores)

        assert code == 2
        assert sentence in err
