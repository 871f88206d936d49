"""All reasons that can come to stand in a condition, an Event or status.lastError, as the code has them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from streamjob.api import Phase

CODE = Path(__file__).parents[3] / "operator" / "streamjob"
LAUNCHER = CODE / "controller" / "objects" / "driver.sh"
# Name of a call → the place of the reason among its arguments.
CALLS = {"Problem": 0, "_warning": 0, "KubernetesEvent": 1, "decide": 1}


def all_reasons() -> set[str]:
    """Class attributes `reason` of errors, literals in calls that take a reason, the launcher's refusals, and
    the phases. Converter and command run at a terminal, and none of their errors becomes a condition.
    """
    found = {phase.value for phase in Phase}
    found |= set(re.findall(r"refuse ([A-Z][A-Za-z]+)", LAUNCHER.read_text()))
    at_a_terminal = ("convert", "cli")
    for path in (p for p in CODE.rglob("*.py") if p.relative_to(CODE).parts[0] not in at_a_terminal):
        for node in ast.walk(ast.parse(path.read_text())):
            found |= _of_class(node) | _of_call(node)
    return found


def _of_class(node: ast.AST) -> set[str]:
    if not isinstance(node, ast.ClassDef):
        return set()
    plain = [(s.targets[0], s.value) for s in node.body if isinstance(s, ast.Assign)]
    typed = [(s.target, s.value) for s in node.body if isinstance(s, ast.AnnAssign)]
    return {
        value.value
        for target, value in [*plain, *typed]
        if isinstance(target, ast.Name)
        and target.id == "reason"
        and isinstance(value, ast.Constant)
        and value.value
    }


def _of_call(node: ast.AST) -> set[str]:
    if not isinstance(node, ast.Call):
        return set()
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    place = CALLS.get(name)
    if place is None or len(node.args) <= place:
        return set()
    reason = node.args[place]
    return {reason.value} if isinstance(reason, ast.Constant) and isinstance(reason.value, str) else set()
