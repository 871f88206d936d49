"""The names of Flink's figures. Each but the drain's exists for both formats of savepoints."""

CANONICAL, NATIVE = "canonical", "native"
DRAIN = "drain"
ROWS_OUT = "drain: request to every window out"


def stop(kind: str) -> str:
    return f"stop, {kind}"


def complete(end: str) -> str:
    return f"{end}: request to savepoint complete"


def ended(end: str) -> str:
    return f"{end}: request to FINISHED"


def running(kind: str) -> str:
    """The state is loaded then."""
    return f"resume, {kind}: submission to all tasks RUNNING"


def loaded(kind: str) -> str:
    return f"resume, {kind}: submission to first checkpoint"
