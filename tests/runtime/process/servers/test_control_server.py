"""The control endpoint over real TLS: what it answers, and what it refuses."""

from __future__ import annotations

import contextlib
import hmac
import json
import select
import socket
import ssl
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from http.client import HTTPSConnection

import pytest

from streamjob.protocol.engine.coordinator import TerminationConflict
from streamjob.protocol.formats import codec
from streamjob.protocol.formats.records import CheckpointRecord, StageRecord
from streamjob.protocol.messages.commands import (
    FIGURES_HEADER,
    REQUEST_LIMIT,
    TERM_HEADER,
    SavepointRequest,
    TerminationRequest,
)
from streamjob.protocol.messages.driver_config import Gate, Restore
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, StageStatus
from streamjob.protocol.messages.figures import QueryFigures
from streamjob.runtime.driver.start.gate_keeper import GateConflict
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.process.config import Credentials
from streamjob.runtime.process.servers import unauthenticated
from streamjob.runtime.process.servers.control_server import ControlServer
from streamjob.runtime.process.servers.unauthenticated import MAX_CONNECTIONS

from ...conftest import Client

SECRET = "s3cret-token"
REQUEST = {"request_id": "stop-1", "epoch": 3, "mode": "Stop", "savepoint": None}


class Recorder:
    """Stands at the driver's place and keeps what it is asked."""

    def __init__(self) -> None:
        self.requests: list[TerminationRequest] = []
        self.completed: list[int] = []
        self.savepoints: list[SavepointRequest] = []
        self.deleted: list[tuple[str, ...]] = []
        self.reached: list[int] = []
        self.executors: list[tuple[int, int]] = []
        self.gates: list[Gate] = []

    @property
    def told(self) -> list[object]:
        """All that it was asked."""
        return [
            *(*self.requests, *self.completed, *self.savepoints),
            *(*self.deleted, *self.reached, *self.executors, *self.gates),
        ]

    def open(self, gate: Gate) -> None:
        if self.gates and self.gates[0].token != gate.token:
            raise GateConflict(f"the gate was opened by {self.gates[0].token}")
        self.gates.append(gate)

    def terminate(self, request: TerminationRequest) -> None:
        if self.requests and self.requests[0].request_id != request.request_id:
            raise TerminationConflict("termination stop-1 is in progress")
        self.requests.append(request)

    def savepoint(self, request: SavepointRequest) -> None:
        if self.requests:
            raise TerminationConflict("the job is ending")
        self.savepoints.append(request)

    def change_executors(self, least: int, most: int) -> None:
        self.executors.append((least, most))

    def delete(self, savepoints: tuple[str, ...]) -> None:
        self.deleted.append(savepoints)

    def tell_records(self, reached: int) -> None:
        self.reached.append(reached)

    def complete(self, checkpoint: int) -> None:
        self.completed.append(checkpoint)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def board() -> StatusBoard:
    return StatusBoard(DriverStatus(1, "uid-1", 3, DriverPhase.RUNNING))


@pytest.fixture
def client(credentials: Credentials, board: StatusBoard, recorder: Recorder) -> Iterator[Client]:
    endpoint = ControlServer(("127.0.0.1", 0), credentials, 3, board, recorder)
    threading.Thread(target=endpoint.serve_forever, args=(0.02,), daemon=True).start()  # ends as soon
    yield Client(endpoint.server_address[1], credentials)
    endpoint.shutdown()
    endpoint.server_close()


def test_status_is_answered_at_once_without_a_version(client: Client) -> None:
    code, status = client.call("GET", "/v1/status")
    assert (code, status["version"], status["phase"]) == (200, 1, "Running")


def test_a_long_poll_waits_for_the_next_version(client: Client, board: StatusBoard) -> None:
    answers = []
    poll = threading.Thread(
        target=lambda: answers.append(client.call("GET", "/v1/status?after=1&timeout=30"))
    )
    poll.start()
    board.update(phase=DriverPhase.TERMINATING)
    poll.join(60)
    assert [(code, status["version"], status["phase"]) for code, status in answers] == [
        (200, 2, "Terminating")
    ]


def test_figures_alone_do_not_end_a_long_poll(client: Client, board: StatusBoard) -> None:
    board.refresh(evicted=True)
    code, status = client.call("GET", "/v1/status?after=1&timeout=0.2")
    assert (code, status["version"], status["evicted"]) == (200, 1, True)


def test_only_a_controller_that_knows_figures_gets_them(client: Client, board: StatusBoard) -> None:
    """One of an earlier version would refuse the status."""
    figures = QueryFigures(state_bytes=5)
    board.refresh(stages=(StageStatus("copy", (), state_rows=3, figures=figures),))
    _, without = client.call("GET", "/v1/status")
    _, with_them = client.call("GET", "/v1/status", **{FIGURES_HEADER: "1"})
    _, of_command = client.call("PUT", "/v1/termination", REQUEST, **{FIGURES_HEADER: "1"})
    assert "figures" not in without["stages"][0]
    assert without["stages"][0]["state_rows"] == 3
    assert with_them["stages"][0]["figures"]["state_bytes"] == 5
    assert of_command["stages"][0]["figures"]["state_bytes"] == 5


def test_commands_reach_the_driver(client: Client, recorder: Recorder) -> None:
    assert client.call("PUT", "/v1/termination", REQUEST)[0] == 202
    assert client.call("PUT", "/v1/checkpoints/7/completed", {"epoch": 3})[0] == 202
    assert [r.request_id for r in recorder.requests] == ["stop-1"]
    assert recorder.completed == [7]


SAVEPOINT = {"request_id": "savepoint-1", "epoch": 3, "savepoint": "file:/savepoints/1", "timeout": 60}


def test_a_savepoint_reaches_the_driver_unless_the_job_is_ending(client: Client, recorder: Recorder) -> None:
    assert client.call("PUT", "/v1/savepoint", SAVEPOINT)[0] == 202
    assert recorder.savepoints == [SavepointRequest("savepoint-1", 3, "file:/savepoints/1", 60.0)]
    client.call("PUT", "/v1/termination", REQUEST)
    code, problem = client.call("PUT", "/v1/savepoint", SAVEPOINT)
    assert (code, problem["reason"]) == (409, "TerminationInProgress")


GATE = codec.to_plain(Gate("handover-3", 3, Restore(), 4))


def test_a_gate_is_opened_once_and_by_a_record_larger_than_other_commands(
    client: Client, recorder: Recorder
) -> None:
    stages = tuple(StageRecord(f"stage-{n}", (), ()) for n in range(2000))
    record = CheckpointRecord(3, 2, None, "", None, "2026-01-01T00:00:00Z", stages)
    whole = Gate("handover-3", 3, Restore(latest=record, exact=True), 4)
    assert len(codec.dumps(whole)) > REQUEST_LIMIT
    assert [client.call("PUT", "/v1/gate", codec.to_plain(whole))[0] for _ in range(2)] == [202, 202]
    assert recorder.gates[0] == whole
    code, problem = client.call("PUT", "/v1/gate", {**GATE, "token": "failover-3"})
    assert (code, problem["reason"]) == (409, "GateConflict")


def test_another_termination_is_a_conflict(client: Client) -> None:
    client.call("PUT", "/v1/termination", REQUEST)
    code, problem = client.call(
        "PUT", "/v1/termination", {**REQUEST, "request_id": "drain-2", "mode": "Drain"}
    )
    assert (code, problem["reason"]) == (409, "TerminationInProgress")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/termination", {**REQUEST, "epoch": 2}),
        ("/v1/checkpoints/7/completed", {"epoch": 4}),
        ("/v1/savepoint", {**SAVEPOINT, "epoch": 2}),
        ("/v1/records", {"epoch": 2, "reached": 7}),
        ("/v1/deletions", {"epoch": 2, "savepoints": ["file:/savepoints/1"]}),
        ("/v1/executors", {"epoch": 2, "least": 1, "most": 4}),
        ("/v1/gate", {**GATE, "epoch": 2}),
    ],
)
def test_a_command_of_another_epoch_changes_nothing(
    client: Client, recorder: Recorder, path: str, body: object
) -> None:
    assert client.call("PUT", path, body)[0] == 412
    assert recorder.told == []


COMMANDS = [
    ("/v1/termination", REQUEST),
    ("/v1/checkpoints/7/completed", {"epoch": 3}),
    ("/v1/savepoint", SAVEPOINT),
    ("/v1/records", {"epoch": 3, "reached": 7}),
    ("/v1/deletions", {"epoch": 3, "savepoints": ["file:/savepoints/1"]}),
    ("/v1/executors", {"epoch": 3, "least": 1, "most": 4}),
    ("/v1/gate", GATE),
]


@pytest.mark.parametrize(("path", "body"), COMMANDS)
@pytest.mark.parametrize(
    "heard", [("GET", "/v1/status", None), ("PUT", "/v1/checkpoints/1/completed", {"epoch": 3})]
)
def test_a_command_of_an_earlier_term_changes_nothing(
    client: Client, recorder: Recorder, heard: tuple[str, str, object], path: str, body: object
) -> None:
    """V12. A later controller has been heard of, be it only because it reads."""
    assert client.call(*heard, term="5")[0] in (200, 202)
    recorder.completed.clear()
    code, problem = client.call("PUT", path, body, term="4")
    assert (code, problem["reason"]) == (412, "StaleTerm")
    assert recorder.told == []
    assert client.call("PUT", path, body, term="5")[0] == 202
    assert len(recorder.told) == 1


@pytest.mark.parametrize(("path", "body"), COMMANDS)
def test_a_command_that_was_on_its_way_when_another_controller_took_over_changes_nothing(
    client: Client, recorder: Recorder, path: str, body: object
) -> None:
    """V12. Its term is looked at when all of it has arrived, not when it begins to."""
    data, connection = json.dumps(body).encode(), client.connection()
    connection.putrequest("PUT", path)
    connection.putheader("Authorization", f"Bearer {client.credentials.token}")
    connection.putheader(TERM_HEADER, "4")
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data[:-1])
    assert client.call("GET", "/v1/status", term="5")[0] == 200
    connection.send(data[-1:])
    answer = connection.getresponse()
    assert (answer.status, answer.getheader(TERM_HEADER)) == (412, "5")
    assert recorder.told == []


def test_the_refusal_names_the_later_term(client: Client) -> None:
    client.call("GET", "/v1/status", term="50")
    assert client.answer("PUT", "/v1/termination", REQUEST, term="4").getheader(TERM_HEADER) == "50"


@pytest.mark.parametrize("term", [None, "1"])
def test_the_status_is_for_everybody_with_the_token(client: Client, term: str | None) -> None:
    client.call("GET", "/v1/status", term="5")
    assert client.call("GET", "/v1/status", term=term)[0] == 200


@pytest.mark.parametrize(("path", "body"), COMMANDS)
@pytest.mark.parametrize("term", [None, "", "0", "-1", "x", "1.0", "9" * 19, "²"])
def test_a_command_has_to_say_its_term(
    client: Client, recorder: Recorder, path: str, body: object, term: str | None
) -> None:
    code, problem = client.call("PUT", path, body, term=term)
    assert (code, problem["reason"]) == (400, "MalformedDocument")
    assert recorder.told == []


def test_a_term_that_is_no_number_teaches_nothing(client: Client) -> None:
    assert client.call("GET", "/v1/status", term="9" * 19)[0] == 400
    assert client.call("PUT", "/v1/termination", REQUEST, term="1")[0] == 202


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/status"), ("PUT", "/v1/termination")])
@pytest.mark.parametrize("token", ["wrong", "s3cret-toke", "s3cret-token "])
def test_a_foreign_token_is_refused(
    client: Client, recorder: Recorder, method: str, path: str, token: str
) -> None:
    code, problem = client.call(method, path, REQUEST, token=token)
    assert (code, problem["reason"]) == (401, "Unauthorized")
    assert "s3cret" not in str(problem)
    assert recorder.requests == []


def test_the_token_is_compared_in_constant_time_and_by_nothing_else(
    client: Client, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr(hmac, "compare_digest", lambda given, ours: compared.append((given, ours)))
    for method, path in (("GET", "/v1/status"), ("PUT", "/v1/termination")):
        assert client.call(method, path, REQUEST)[0] == 401, "something else lets it in"
    right = f"Bearer {client.credentials.token}".encode()
    assert compared == [(right, right)] * 2
    assert recorder.requests == []


def test_a_replayed_request_is_one_request(client: Client, recorder: Recorder) -> None:
    """What was recorded of an earlier attempt is refused by its epoch; of this one it says nothing new (V8:
    the coordinator).
    """
    for _ in range(3):
        assert client.call("PUT", "/v1/termination", REQUEST)[0] == 202
    assert {r.request_id for r in recorder.requests} == {"stop-1"}
    assert client.call("PUT", "/v1/termination", {**REQUEST, "epoch": 1})[0] == 412


def test_without_tls_there_is_no_answer(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=10) as plain:
        plain.sendall(f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {SECRET}\r\n\r\n".encode())
        received = b"".join(iter(lambda: read(plain), b""))
    assert b"HTTP" not in received
    assert b"version" not in received


def read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(4096)
    except ConnectionResetError:
        return b""


def test_old_tls_is_refused(client: Client) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(connection)


def test_who_does_not_show_the_token_is_hung_up_on_however_slowly_it_speaks(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte at a time would keep a connection for ever, and with 32 of them the controller out."""
    monkeypatch.setattr(unauthenticated, "GREETING", 2.0)
    connection = in_time(client, HTTPSConnection.connect)
    connection.sock.settimeout(0.05)
    connection.sock.sendall(b"GET /v1/status HTTP/1.1\r\nX: ")
    while listens(connection.sock):  # within the test's time limit
        pass


def in_time(client: Client, greet: Callable[[HTTPSConnection], object]) -> HTTPSConnection:
    """A connection that was greeted within GREETING: on a busy machine perhaps not the first one."""
    while True:
        connection = client.connection()
        with contextlib.suppress(OSError):
            greet(connection)
            return connection


def listens(connection: socket.socket) -> bool:
    """It takes another byte, and has not hung up."""
    try:
        connection.sendall(b"x")
        return bool(connection.recv(1))
    except TimeoutError:
        return True
    except (ConnectionError, ssl.SSLError):
        return False


def test_who_has_shown_it_may_wait(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated, "GREETING", 2.0)
    headers = {"Authorization": f"Bearer {client.credentials.token}"}

    def poll(connection: HTTPSConnection, timeout: float = 0) -> None:
        connection.request("GET", f"/v1/status?after=1&timeout={timeout}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()

    connection = in_time(client, poll)
    poll(connection, 2.5)
    poll(connection)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"request_id":"x"}', b"[" * 20000, b'{"mode":"Explode","request_id":"x","epoch":3}'],
)
def test_a_malformed_body_is_refused(client: Client, recorder: Recorder, body: bytes) -> None:
    code, problem = client.call("PUT", "/v1/termination", body)
    assert (code, problem["reason"]) == (400, "MalformedDocument")
    assert recorder.requests == []


def test_an_oversized_body_is_refused_unread(client: Client, recorder: Recorder) -> None:
    connection = client.connection()
    connection.putrequest("PUT", "/v1/termination")
    connection.putheader("Authorization", f"Bearer {client.credentials.token}")
    connection.putheader("Content-Length", str(REQUEST_LIMIT + 1))
    connection.endheaders()
    assert connection.getresponse().status == 400
    assert recorder.requests == []


@pytest.mark.parametrize(
    "path", ["/", "/v1/termination/x", "/v1/checkpoints/-1/completed", "/v1/checkpoints/x/completed"]
)
def test_unknown_paths(client: Client, path: str) -> None:
    assert client.call("PUT", path, REQUEST)[0] == 404


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is hung up on for being slow: who waits for that waits longer than a client does."""
    monkeypatch.setattr(unauthenticated, "GREETING", 3600.0)


def test_clients_that_stall_in_the_handshake_hold_up_nobody(patient: None, client: Client) -> None:
    stalled = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(MAX_CONNECTIONS // 2)]
    try:
        assert client.call("GET", "/v1/status")[0] == 200
    finally:
        for connection in stalled:
            connection.close()


def test_strangers_do_not_keep_the_controller_out(patient: None, client: Client) -> None:
    """Where no NetworkPolicy is enforced, any pod may connect.

    As many as are allowed, each replaced when it is hung up on.
    """
    stalled = deque(socket.create_connection(("127.0.0.1", client.port)) for _ in range(MAX_CONNECTIONS))
    over = threading.Event()

    def insist() -> None:
        while not over.wait(0.05):
            stalled.append(socket.create_connection(("127.0.0.1", client.port)))

    stranger = threading.Thread(target=insist)
    stranger.start()
    try:
        for _ in range(5):
            assert client.call("GET", "/v1/status")[0] == 200
    finally:
        over.set()
        stranger.join()
        for connection in stalled:
            connection.close()


def test_a_connection_that_has_shown_the_token_does_not_make_way(client: Client) -> None:
    connection = client.connection()
    headers = {"Authorization": f"Bearer {client.credentials.token}"}
    connection.request("GET", "/v1/status", headers=headers)
    connection.getresponse().read()
    stalled = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(MAX_CONNECTIONS + 4)]
    readable: list[socket.socket] = []
    while len(readable) < 4:
        readable, _, _ = select.select(stalled, [], [], 9)
    connection.request("GET", "/v1/status", headers=headers)
    assert connection.getresponse().status == 200
    for other in stalled:
        other.close()


def test_connections_are_bounded_and_come_back(patient: None, client: Client) -> None:
    stalled = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(MAX_CONNECTIONS + 4)]
    refused: set[socket.socket] = set()
    while len(refused) < 4:
        readable, _, _ = select.select([s for s in stalled if s not in refused], [], [], 60)
        assert readable, "more connections than allowed are held open"
        refused.update(readable)
    for connection in stalled:
        connection.close()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            assert client.call("GET", "/v1/status")[0] == 200
            return
        except OSError:  # the handshakes that were aborted are still being torn down
            continue
    pytest.fail("no connection was let in again")
