"""Between a controller and everybody else: latency, faults, and the end of a controller that is killed.

`Api` stands where the client library is under `controller/api_server/kube.py`, `Session` where aiohttp's is
under `controller/drivers/connection.py`: what is above them, errors and their meaning, long polls, retries,
is the production code.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import aiohttp

from streamjob.protocol.formats import codec
from streamjob.protocol.messages.commands import (
    TERM_HEADER,
    Completed,
    ExecutorsRequest,
    RecordsRequest,
    SavepointDeletion,
    SavepointRequest,
    TerminationRequest,
)
from streamjob.protocol.messages.driver_config import Gate
from streamjob.protocol.messages.driver_status import Problem
from streamjob.runtime.process.servers.control_server import LONG_POLL_MAX

from .apiserver import Refusal
from .ground_truth import Violation
from .plan import Fault

if TYPE_CHECKING:
    from .controller_process import Controller
    from .driver import Driver

RETRY_AFTER = 3
EARLY = 0.2  # seconds; of calls side by side one may be answered a little later


@dataclass
class Answer:
    """As kubernetes' client and aiohttp both give it."""

    status: int
    data: bytes
    headers: dict[str, str] = field(default_factory=dict)

    async def read(self) -> bytes:
        return self.data

    @property
    def content(self) -> Answer:
        return self

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        yield self.data


async def for_ever() -> None:
    """Where the calls of a process that is dead end up."""
    await asyncio.get_running_loop().create_future()


async def travel(controller: Controller) -> None:
    """One way through the network."""
    if delay := controller.world.latency():
        await asyncio.sleep(delay)
    if controller.dead:
        await for_ever()


class Api:
    """In the place of `kubernetes.aio.client.ApiClient`."""

    def __init__(self, controller: Controller) -> None:
        self.controller, self.world = controller, controller.world
        self._not_before: dict[str, float] = {}

    def _patient(self, call: str) -> None:
        """O3: what the server has no time for is not asked again before it has said.

        The Lease is: that cannot wait.
        """
        early = self._not_before.get(call, 0.0) - self.world.loop.time()
        if early > EARLY and "/leases" not in call:
            self.world.fail(Violation(f"O3: {call} comes {early:.1f} s before its Retry-After is over"))

    async def param_serialize(self, method: str, path: str, **_: Any) -> tuple[Any, ...]:
        return method, path, {}

    async def call_api(self, method: str, url: str, headers: Any, body: Any, _request_timeout: Any) -> Answer:
        self._patient(f"{method} {url}")
        await travel(self.controller)
        what = f"{method} {url.split('?', maxsplit=1)[0].partition('/namespaces/')[2] or url}"
        effect = method != "GET" and "/events" not in url and "/leases" not in url
        fault = self.world.fault(self.controller, what, effect)

        def apply() -> Answer:
            code, answer = self.world.ask(self.controller, method, url, body)
            if effect:
                self.world.note(self.controller.name, f"{what} → {code}")
            return Answer(code, answer.encode())

        if fault is None:
            answer = apply()
        elif fault is Fault.CONFLICT:
            answer = _refused(409, "Conflict")
        elif fault is Fault.TOO_MANY:
            answer = _refused(429, "TooManyRequests")
            answer.headers["Retry-After"] = str(RETRY_AFTER)
        elif fault is Fault.ERROR:
            answer = _refused(500, "InternalError")
        else:
            await self.world.strike(self.controller, fault, apply, _request_timeout.total)
        await travel(self.controller)
        if fault is Fault.TOO_MANY:
            self._not_before[f"{method} {url}"] = self.world.loop.time() + RETRY_AFTER
        return answer

    async def close(self) -> None:
        pass


def _refused(code: int, reason: str) -> Answer:
    return Answer(code, json.dumps(Refusal(code, reason, "a fault of the plan").body).encode())


class Session:
    """In the place of `aiohttp.ClientSession`: what a driver's control endpoint answers
    (runtime.process.servers.control_server.py).
    """

    def __init__(self, controller: Controller) -> None:
        self.controller, self.world = controller, controller.world

    def request(self, method: str, url: str, **options: Any) -> Exchange:
        return Exchange(self, method, url, options)

    async def close(self) -> None:
        pass


class Exchange:
    def __init__(self, session: Session, method: str, url: str, options: dict[str, Any]) -> None:
        self.controller, self.world = session.controller, session.world
        self.method, self.url, self.options = method, urlsplit(url), options

    async def __aenter__(self) -> Answer:
        timeout: float = self.options["timeout"].total
        await travel(self.controller)
        what = f"{self.method} {self.url.path}"
        fault = self.world.fault(self.controller, what, self.method == "PUT")
        if fault in (Fault.CONFLICT, Fault.TOO_MANY):
            raise aiohttp.ClientConnectionError("refused")
        if fault is Fault.ERROR:
            answer = _problem(500, Problem("InternalError", "a fault of the plan"))
        elif fault is not None:
            done = self._apply if self.method == "PUT" else lambda: None
            await self.world.strike(self.controller, fault, done, timeout)
        else:
            answer = await self._serve(timeout)
        await travel(self.controller)
        return answer

    async def __aexit__(self, *_: object) -> None:
        pass

    def _driver(self) -> Driver:
        driver = self.world.kubelet.at(self.url.hostname or "")
        if driver is None:
            raise aiohttp.ClientConnectionError("nobody listens")
        return driver

    async def _serve(self, timeout: float) -> Answer:
        driver = self._driver()
        if driver.hanging_until > self.world.loop.time():
            await asyncio.sleep(min(timeout, driver.hanging_until - self.world.loop.time()))
            if driver.hanging_until > self.world.loop.time():
                raise asyncio.TimeoutError
        if self.method == "GET":
            return await self._status(driver)
        return self._apply()

    def _authorized(self, driver: Driver) -> bool:
        return bool(self.options["headers"]["Authorization"] == f"Bearer {driver.token}")

    async def _status(self, driver: Driver) -> Answer:
        if not self._authorized(driver):
            return _problem(401, Problem("Unauthorized", "not this job's token"))
        driver.term = max(driver.term, int(self.options["headers"][TERM_HEADER]))
        query = parse_qs(self.url.query)
        after, timeout = int(query["after"][0]), min(float(query["timeout"][0]), LONG_POLL_MAX)
        if driver.status.version <= after:
            changed = asyncio.get_running_loop().create_future()

            def wake() -> None:
                if not changed.done():
                    changed.set_result(None)

            driver.waiters.append(wake)
            timer = self.world.loop.call_later(timeout, wake)
            await changed
            timer.cancel()
        if not driver.alive:
            raise aiohttp.ServerDisconnectedError
        driver.sample()
        return Answer(200, driver.text.encode())

    def _apply(self) -> Answer:
        """A command is taken, or refused."""
        driver, data = self._driver(), self.options["data"]
        if not self._authorized(driver):
            return _problem(401, Problem("Unauthorized", "not this job's token"))
        term = int(self.options["headers"][TERM_HEADER])
        if term < driver.term:
            refused_by = {TERM_HEADER: str(driver.term)}
            return _problem(412, Problem("StaleTerm", "a later controller leads"), refused_by)
        driver.term = term
        parts = self.url.path.strip("/").split("/")
        kinds = {
            "gate": Gate,
            "termination": TerminationRequest,
            "savepoint": SavepointRequest,
            "executors": ExecutorsRequest,
            "deletions": SavepointDeletion,
            "records": RecordsRequest,
        }
        command: Any = codec.loads(kinds.get(parts[1], Completed), data)
        self.world.oracle.command(self.controller.name, driver, command)
        refused: Problem | None = None
        if command.epoch != driver.config.epoch:
            return _problem(412, Problem("StaleEpoch", "another epoch"))
        if isinstance(command, Gate):
            refused = driver.open(command)
        elif isinstance(command, TerminationRequest):
            refused = driver.terminate(command)
        elif isinstance(command, SavepointRequest):
            refused = driver.savepoint(command)
        elif isinstance(command, ExecutorsRequest):
            driver.change_executors(command.least, command.most)
        elif isinstance(command, SavepointDeletion):
            driver.delete(command.savepoints)
        elif isinstance(command, RecordsRequest):
            driver.tell_records(command.reached)
        else:
            self.world.oracle.confirmed(driver, int(parts[2]))
            driver.complete(int(parts[2]))
        code = 409 if refused else 202
        self.world.note(self.controller.name, f"PUT {self.url.path} to epoch {driver.config.epoch} → {code}")
        return _problem(409, refused) if refused else Answer(202, driver.text.encode())


def _problem(code: int, problem: Problem, headers: dict[str, str] | None = None) -> Answer:
    return Answer(code, codec.dumps(problem).encode(), headers or {})
