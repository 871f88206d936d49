"""Who gets an answer from the server, and who does not. No kubectl: what is refused never reaches it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from streamjob.cli.options import Options
from streamjob.cli.ui import security, server
from streamjob.cli.ui.cluster import ClusterDetails, ClusterJobs
from streamjob.cli.ui.jobs import Jobs
from streamjob.cli.ui.requests import Request
from streamjob.cli.ui.security import Tokens
from streamjob.cli.ui.server import PageServer

JOB = {
    "metadata": {"name": "orders", "namespace": "streams", "uid": "u1", "resourceVersion": "1"},
    "spec": {},
}


class NoCalls(ClusterDetails):
    """Nothing here may reach kubectl, except where a test says so."""

    def __init__(self) -> None:
        super().__init__(Options())
        self.requests: list[Request] = []

    def request(self, found: Any, wanted: Request) -> Any:
        self.requests.append(wanted)
        return {**JOB, "metadata": {**JOB["metadata"], "resourceVersion": "2"}}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[PageServer]:
    monkeypatch.setattr(server, "page_files", lambda: {"/": ("text/html; charset=utf-8", b"<!doctype html>")})
    jobs = Jobs(ClusterJobs(Options().kubectl, all_namespaces=False))
    jobs.replace([json.loads(json.dumps(JOB))])
    found = PageServer(0, jobs, NoCalls())
    threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
    yield found
    found.shutdown()
    found.server_close()


def ask(
    served: PageServer, path: str, method: str = "GET", *, token: bool = True, body: str = "", **headers: str
) -> tuple[int, Any, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    given = {"Authorization": f"Bearer {served.tokens.token}"} if token else {}
    connection.request(method, path, body or None, given | headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    is_json = answer.headers.get_content_type() == "application/json"
    return answer.status, json.loads(text) if is_json else text, answer.headers


DATA = [
    "/api/stream",
    "/api/jobs/streams/orders/details",
    "/api/jobs/streams/orders/history",
    "/api/jobs/streams/orders/diagnosis",
]


def test_it_listens_on_the_loopback_only(served: PageServer) -> None:
    assert served.server_address[0] == "127.0.0.1"
    others = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1"}:
        if not address.startswith("127."):
            with (
                pytest.raises(ConnectionRefusedError),
                socket.create_connection((address, served.port), timeout=2),
            ):
                pass


@pytest.mark.parametrize("path", DATA)
@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", "Basic abc", "Bearer \xe9"])
def test_no_data_without_the_token(served: PageServer, path: str, authorization: str) -> None:
    status, said, _ = ask(served, path, token=False, Authorization=authorization)
    assert (status, said["reason"]) == (401, "Unauthorized")


def test_the_token_in_the_address_is_not_enough(served: PageServer) -> None:
    """Only a page of ours can set the header. A link in another page can have any address."""
    path = f"/api/jobs/streams/orders/history?token={served.tokens.token}"
    assert ask(served, path, token=False)[0] == 401
    assert ask(served, path, token=False, Cookie=f"token={served.tokens.token}")[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost", "127.0.0.1:1", "[::1]:80"])
@pytest.mark.parametrize("path", ["/", *DATA])
def test_another_name_for_the_loopback_is_refused(served: PageServer, host: str, path: str) -> None:
    assert ask(served, path, Host=host)[0] == 403


def test_both_names_of_its_own_are_answered(served: PageServer) -> None:
    for host in ("127.0.0.1", "localhost"):
        assert ask(served, "/", token=False, Host=f"{host}:{served.port}")[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"])
def test_another_page_is_refused_even_with_the_token(served: PageServer, origin: str) -> None:
    assert ask(served, DATA[2], Origin=origin)[0] == 403
    path = "/api/jobs/streams/orders/requests"
    assert ask(served, path, "POST", body='{"request": "drain"}', Origin=origin)[0] == 403
    assert served.details.requests == []  # type: ignore[attr-defined]


def test_a_change_takes_the_token(served: PageServer) -> None:
    path, body = "/api/jobs/streams/orders/requests", '{"request": "stop"}'
    ours = f"http://127.0.0.1:{served.port}"
    assert ask(served, path, "POST", token=False, body=body, Origin=ours)[0] == 401
    assert served.details.requests == []  # type: ignore[attr-defined]
    assert ask(served, path, "POST", body=body, Origin=ours)[0] == 200
    assert served.details.requests == [Request.STOP]  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_no_other_method(served: PageServer, method: str) -> None:
    """OPTIONS too: no other origin is ever allowed anything."""
    assert ask(served, "/api/jobs/streams/orders/requests", method)[0] == 501


@pytest.mark.parametrize(
    "path", ["/../server.py", "/..%2fserver.py", "/server.py", "//etc/passwd", "/page/x"]
)
def test_nothing_but_the_page_is_served_from_the_disk(served: PageServer, path: str) -> None:
    assert ask(served, path)[0] == 404
    assert ask(served, path, token=False)[0] == 401


@pytest.mark.parametrize("path", ["/", DATA[1], "/nothing"])
def test_every_answer_forbids_what_the_page_does_not_need(served: PageServer, path: str) -> None:
    _, _, headers = ask(served, path, token=False)
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy.pop("default-src") == "'none'"
    assert "'unsafe" not in headers["Content-Security-Policy"]
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize(
    ("body", "status"),
    [('{"request": "explode"}', 502), ("[]", 502), ("not JSON", 502), ("x" * 10_000, 502), ("", 502)],
)
def test_a_request_that_nobody_knows_changes_nothing(served: PageServer, body: str, status: int) -> None:
    code, said, _ = ask(served, "/api/jobs/streams/orders/requests", "POST", body=body)
    assert (code, said["reason"]) == (status, "UnknownRequest")
    assert served.details.requests == []  # type: ignore[attr-defined]


def test_a_job_that_is_not_there(served: PageServer) -> None:
    code, said, _ = ask(served, "/api/jobs/streams/other/history")
    assert (code, said["reason"]) == (404, "NotFound")


def test_a_code_gives_the_token_once_and_soon() -> None:
    now = [0.0]
    tokens = Tokens(clock=lambda: now[0])
    code = tokens.code()
    assert tokens.exchange(f"Bearer {code}") is None
    assert tokens.exchange(f"Once {code}") == tokens.token
    assert tokens.exchange(f"Once {code}") is None
    late = tokens.code()
    now[0] += security.CODE_SECONDS
    assert tokens.exchange(f"Once {late}") is None
    assert tokens.exchange("") is None
    assert not tokens.admits("Bearer ")
    assert Tokens().token != Tokens().token


def test_the_page_exchanges_its_code(served: PageServer) -> None:
    code = served.tokens.code()
    ours = f"http://127.0.0.1:{served.port}"
    status, said, _ = ask(
        served, "/api/session", "POST", token=False, Authorization=f"Once {code}", Origin=ours
    )
    assert (status, said) == (200, {"token": served.tokens.token})
    again = ask(served, "/api/session", "POST", token=False, Authorization=f"Once {code}")
    assert again[0] == 401
