"""The job service of ``jobs_launcher``, played on a real HTTP server of the loopback address."""

from __future__ import annotations

from typing import Any

from tests.unit.launch.recorded_master import JsonServer


class JobService:
    """
    One job of a name, kept for ever.

    :param states: By name.
    :param loses_answers: It takes what it is sent, and the connection breaks before the answer.
    """

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.started: list[dict[str, Any]] = []
        self.loses_answers = False
        self._server = JsonServer(self._answer)
        self.url = f"http://{self._server.address}"

    def close(self) -> None:
        self._server.close()

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if self._server.header("Authorization") != "Bearer planted-token":
            return 401, {"message": "who are you?"}
        name, _, part = path.removeprefix("/jobs/").partition("/")
        status, reply = self._of(method, name, part, body)
        return (0, {}) if self.loses_answers else (status, reply)

    def _of(self, method: str, name: str, part: str, body: dict[str, Any]) -> tuple[int, Any]:
        if method == "PUT":
            if name in self.states:
                return 409, {"message": "there is one"}
            self.states[name] = "running"
            self.started.append(body)
            return 201, {"state": "running"}
        if name not in self.states:
            return 404, {"code": "no_such_job"}
        if part == "log":
            return 200, b"A line of the driver.\n"
        if method == "DELETE" and self.states[name] == "running":
            self.states[name] = "failed"
        return 200, {"state": self.states[name]}
