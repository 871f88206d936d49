"""How long a script may run on when its job has ended: when it is told, and when its process ends."""

from __future__ import annotations

from dataclasses import dataclass

SCRIPT_END_GRACE = 30.0  # seconds that a script has to end by itself, before it is told and between two times
LEAST_GRACE = 10.0  # seconds that a script has at least, if the savepoint took all the time
LISTENERS = 5.0  # seconds that a script has to end before its listeners hear of the end of its queries


@dataclass(frozen=True)
class Overtime:
    """A script that runs on. All times are seconds on one clock.

    :param since: nothing but the script is left since then.
    :param limit: the process ends then.
    :param works: the script may work on. It is told shortly before the limit, not soon after `since`.
    :param at_once: it is told without delay.
    """

    since: float
    limit: float
    works: bool = False
    at_once: bool = False

    @property
    def pause(self) -> float:
        """Between two times that the script is told: at most a third of its time."""
        return min(SCRIPT_END_GRACE, max(self.limit - self.since, 0) / 3)

    def is_due(self, now: float, told: float | None) -> bool:
        """Whether to tell the script.

        :param told: when it was told last, None if it was not.
        """
        if told is not None:
            return now >= told + self.pause
        if self.at_once:
            return True
        return now >= (self.limit - self.pause if self.works else self.since + self.pause)

    def listeners_are_due(self, now: float) -> bool:
        """Whether the script may wait for what its listeners have not heard yet."""
        return self.works and now >= self.since + min(self.pause, LISTENERS)


def limit_of(begun: float, alone: float, timeout: float | None, grace: float) -> float:
    """When the process of a job that was asked to end ends.

    :param begun: when the job was asked.
    :param alone: when nothing but the script was left.
    :param timeout: seconds that the request allows from `begun`, None if it names none.
    :param grace: seconds that such a request allows from `alone`.
    """
    if timeout is None:
        return alone + grace
    return max(begun + timeout, alone + min(LEAST_GRACE, timeout))
