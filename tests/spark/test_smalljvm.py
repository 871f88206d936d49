"""A JVM that does not come up says why."""

from __future__ import annotations

import pytest

from streamjob.jvm.standalone import NoJvm, SmallJvm

pytestmark = pytest.mark.any_spark


def test_what_java_warns_of_at_every_start_is_not_the_reason() -> None:
    with pytest.raises(NoJvm, match=r"did not start: .*[Mm]aster"):
        SmallJvm({"spark.master": "nonsense"})
