"""What a check says of a script: of each query, and of the whole (ADR 65). Pure, with its words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from .driver_status import Problem

GOES_ON, DOES_NOT, NOT_CHECKED = range(3)


class Outcome(str, Enum):
    CONTINUES = "Continues"
    NEW = "New"
    FINISHED = "Finished"
    REFUSED = "Refused"
    MISSING = "Missing"
    NOT_STARTED = "NotStarted"  # so far; unlike a missing one, the script may still start it


WORDS = {
    Outcome.NEW: "new, starts from nothing",
    Outcome.FINISHED: "has finished, reads nothing any more",
    Outcome.REFUSED: "refused",
    Outcome.MISSING: "missing: its state would be lost",
    Outcome.NOT_STARTED: "not started so far, its state is kept",
}


@dataclass(frozen=True)
class Verdict:
    """What becomes of one query.

    :param batch: the last batch that it has committed, None if there is none.
    :param problem: why the query does not start, or why its state would be lost. None of a missing query: the
        loss is allowed.
    :param wrote: the version of Spark that ran it last, None if that is not known.
    """

    query: str
    outcome: Outcome
    batch: int | None = None
    problem: Problem | None = None
    warnings: tuple[Problem, ...] = ()
    wrote: str | None = None

    @property
    def words(self) -> str:
        after = "from its beginning" if self.batch is None else f"after batch {self.batch}"
        return WORDS.get(self.outcome, f"continues {after}")


@dataclass(frozen=True)
class Report:
    """What becomes of a script.

    :param against: what it would continue from.
    :param spark: this version of Spark; None if the script has started no query.
    :param refused: why the script as a whole does not go on.
    :param unknown: why not everything could be checked.
    :param no_way_back: why the script before this one could not go on after its first batch. Empty if it
        could, as far as that is known.
    """

    script: str
    against: str
    verdicts: tuple[Verdict, ...] = ()
    spark: str | None = None
    refused: Problem | None = None
    unknown: Problem | None = None
    no_way_back: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """The exit code. What is refused is refused, whatever could not be checked beside it."""
        if self.refused or any(verdict.problem for verdict in self.verdicts):
            return DOES_NOT
        return NOT_CHECKED if self.unknown else GOES_ON

    def lines(self, width: int) -> Iterator[str]:
        """For people."""
        yield f"{self.script} against {self.against}" + (f", with Spark {self.spark}" if self.spark else "")
        names = max((len(verdict.query) for verdict in self.verdicts), default=0)
        for verdict in self.verdicts:
            yield f"  {verdict.query:{names}}  {verdict.words}"
            for problem in (verdict.problem, *verdict.warnings):
                yield from _told(problem, width, 4)
        yield from _told(self.refused, width, 2)
        yield from _told(self.unknown, width, 2)
        for why in self.no_way_back if self.code == GOES_ON else ():
            yield from _wrapped(f"No way back after its first batch: {why}", width, 2)
        yield ("It goes on.", "It does not go on.", "It could not be checked.")[self.code]


def _told(problem: Problem | None, width: int, indent: int) -> Iterator[str]:
    if problem is not None:
        yield from _wrapped(f"{problem.reason}: {problem.message}", width, indent)
        yield from _wrapped(f"→ {problem.remedy}" if problem.remedy else "", width, indent)


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    first, further = " " * indent, " " * (indent + 2)
    room = {"width": max(width, 40), "initial_indent": first, "subsequent_indent": further}
    return textwrap.wrap(text, **room, break_long_words=False, break_on_hyphens=False)  # type: ignore[arg-type]
