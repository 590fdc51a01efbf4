"""
A standalone master's REST submission server, played with the answers of a real one (Spark 4.3.0).

It also plays the sides of it that a test cannot bring about at will: a standby, a fail-over, a
worker that was lost, and an answer that is lost on its way.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

STANDBY: Final = (
    "Exception from the cluster:\norg.apache.spark.SparkException: Current state is not alive: "
    "STANDBY. Can only request driver status in ALIVE state."
)
WORKER: Final = "worker-20261122171911-127.0.0.1-17078"


class JsonServer:
    """A loopback HTTP server whose answers are a function's."""

    def __init__(self, answer: Callable[[str, str, dict[str, Any]], tuple[int, Any]]) -> None:
        self._asked = asked = threading.local()

        class Handler(BaseHTTPRequestHandler):
            def do(self) -> None:
                asked.headers = self.headers
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size) or b"{}") if size else {}
                status, reply = answer(self.command, self.path, body)
                data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        # What closes it waits until it looks up: half a second by default, for each of hundreds.
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def header(self, name: str) -> str:
        """Return a header of the question that is being answered."""
        return str(self._asked.headers.get(name, ""))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class RecordedMaster:
    """
    One master.

    :param drivers: Its drivers by id, each as the answer to a question for its status.
    :param submitted: The bodies of all submissions.
    :param is_standby: Another master is the active one.
    :param loses_answers: Submissions are taken, and the connection breaks before the answer.
    :param outputs: What drivers have written, by id and output.
    :param workers_pages: Where the worker says that its pages are; its master passes questions on.
    """

    def __init__(self) -> None:
        self.drivers: dict[str, dict[str, Any]] = {}
        self.submitted: list[dict[str, Any]] = []
        self.is_standby = self.loses_answers = False
        self.outputs: dict[tuple[str, str], bytes] = {}
        self._server = JsonServer(self._answer)
        self._pages = JsonServer(self._page)
        self.workers_pages = f"http://{self._pages.address}"
        self.address = self._server.address
        self.url = f"spark://{self.address}?ui={self._pages.address.rpartition(':')[2]}"

    def close(self) -> None:
        self._server.close()
        self._pages.close()

    def end(self, driver: str, state: str = "FAILED", message: str | None = None) -> None:
        self.drivers[driver]["driverState"] = state
        if message is not None:
            self.drivers[driver]["message"] = message

    def _answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        what, _, driver = path.removeprefix("/v1/submissions/").partition("/")
        if what == "create" and method == "POST":
            return self._create(body)
        kind = "SubmissionStatusResponse" if what == "status" else "KillSubmissionResponse"
        answer = {"action": kind, "serverSparkVersion": "4.3.0", "submissionId": driver}
        if self.is_standby:
            return 200, {**answer, "message": STANDBY, "success": False}
        if driver not in self.drivers:
            return 200, {**answer, "success": False}
        if what == "kill":
            self.drivers[driver]["driverState"] = "KILLED"
            message = f"Kill request for {driver} submitted"
            return 200, {**answer, "message": message, "success": True}
        return 200, {**answer, **self.drivers[driver], "success": True}

    def _create(self, body: dict[str, Any]) -> tuple[int, Any]:
        answer = {"action": "CreateSubmissionResponse", "serverSparkVersion": "4.3.0"}
        if self.is_standby:
            return 200, {**answer, "message": STANDBY, "success": False}
        driver = f"driver-20261122171858-{len(self.drivers):04}"
        self.submitted.append(body)
        self.drivers[driver] = {
            "driverState": "RUNNING",
            "workerHostPort": "127.0.0.1:17078",
            "workerId": WORKER,
        }
        if self.loses_answers:
            return 0, {}
        message = f"Driver successfully submitted as {driver}"
        return 200, {**answer, "message": message, "submissionId": driver, "success": True}

    def _page(self, _: str, path: str, __: dict[str, Any]) -> tuple[int, Any]:
        """Answer as the master's pages do, and as the worker's, which are at the same address here."""
        if path == "/json/":
            worker = {"id": WORKER, "host": "127.0.0.1", "webuiaddress": self.workers_pages}
            return 200, {"url": self.url, "workers": [] if self.is_standby else [worker]}
        page = urlsplit(path.removeprefix(f"/proxy/{WORKER}"))
        asked = dict(parse_qsl(page.query))
        if page.path != "/log/":
            return 404, b"<html>"
        output = self.outputs.get((asked["driverId"], asked["logType"]))
        if output is None:
            return 200, b"Error: invalid log directory /work/none"
        shown = output[-int(asked["byteLength"]) :]
        begin = len(output) - len(shown)
        head = (
            f"==== Bytes {begin}-{len(output)} of {len(output)} of /work/{asked['logType']} ====\n"
        )
        return 200, head.encode() + shown
