"""The text of an error is a sentence, whatever it quotes."""

from __future__ import annotations

import pytest

from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.messages.driver_status import Problem


@pytest.mark.parametrize("message", ["the batch failed: no such column", "the batch failed: no such column."])
def test_a_full_stop_of_what_is_quoted_is_not_doubled(message: str) -> None:
    error = StreamJobError(message, remedy="See the log")
    assert str(error) == "the batch failed: no such column. See the log."
    assert Problem.of(error).message == "the batch failed: no such column"
