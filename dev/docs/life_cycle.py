"""The life cycle of a task as a table, from the tables that the runtime executes."""

from __future__ import annotations

from streamjob.protocol.lifecycle import OPERATOR, TASK, Scenario, TaskState

MEANINGS = {
    TaskState.RUNNING: "The query runs. Its input has not ended.",
    TaskState.WAITING_FOR_FINAL_CP: "Its last row is processed. No later checkpoint has completed yet.",
    TaskState.FINISHED: "That checkpoint is in the index. Its readers have not taken everything yet.",
    TaskState.CLOSED: "An end: nothing is left to do.",
    TaskState.FAILED: "An end for this driver: it failed. The next one resumes from the checkpoint.",
    TaskState.CANCELED: "An end for this driver: it was killed. The next one resumes from the checkpoint.",
}


def table() -> str:
    """The page's part, as Markdown."""
    lines = ["| state of a task | meaning | on the event | it becomes |", "|---|---|---|---|"]
    for state, row in TASK.items():
        first = (f"`{state.value}`", MEANINGS[state])
        for event, target in row.items() or [(None, None)]:
            after = (event.value, f"`{target.value}`") if event and target else ("", "")
            lines.append(f"| {' | '.join((*first, *after))} |")
            first = ("", "")
    lines += [
        "",
        "| state of an operator | on the event | in a drain, or when the input ends | in a stop |",
        "|---|---|---|---|",
    ]
    drained, stopped = OPERATOR[Scenario.DRAIN], OPERATOR[Scenario.STOP]
    for operator, transitions in drained.items():
        for event in dict.fromkeys([*transitions, *stopped[operator]]):
            ends = [t[operator].get(event) for t in (drained, stopped)]
            cells = [f"`{end.value}`" if end else "" for end in ends]
            lines.append(f"| `{operator.value}` | {event.value} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines) + "\n"
