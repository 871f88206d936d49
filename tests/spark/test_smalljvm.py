"""A JVM that does not come up says why."""

from __future__ import annotations

import os
import signal

import pytest

from streamjob.jvm.standalone import NoJvm, SmallJvm

pytestmark = pytest.mark.any_spark


def test_what_java_warns_of_at_every_start_is_not_the_reason() -> None:
    with pytest.raises(NoJvm, match=r"did not start: .*[Mm]aster"):
        SmallJvm({"spark.master": "nonsense"})


def test_it_ends_although_a_process_that_was_forked_meanwhile_holds_its_pipe() -> None:
    jvm = SmallJvm({})
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        jvm.close()
        assert jvm.process.poll() is not None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
