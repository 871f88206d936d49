"""All Spark resources of the two projects' repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjob.convert.conversion import convert_all
from streamjob.convert.source import NOT_KNOWN, Kind

from .inputs import DECIDED, Obj, applications, as_python, convert, files, read

EXAMPLES = list(applications())
PYTHON = {"spark-pi-python", "pi-python", "($SPARK_APPLICATION_NAME)"}


def test_these_are_all_of_them() -> None:
    assert len(EXAMPLES) == 58
    assert len(files("kubeflow")) == 19
    assert len(files("apache")) == 51


@pytest.mark.parametrize("document", [pytest.param(d, id=i) for i, d in EXAMPLES])
def test_an_example_is_converted_or_refused_by_name(document: Obj) -> None:
    conversion = convert(document)
    spec = document["spec"]
    python = spec.get("type") == "Python" or ("pyFiles" in spec and "jars" not in spec)
    assert bool(conversion.objects) == python
    assert not python or document["metadata"]["name"] in PYTHON
    if conversion.refused:
        assert "a StreamJob's is in Python" in conversion.refused.message
        assert conversion.refused.remedy


@pytest.mark.parametrize("document", [pytest.param(d, id=i) for i, d in EXAMPLES])
def test_its_fields_are_known(document: Obj) -> None:
    """With a Python program, each of them is a StreamJob, and no field of it is unknown."""
    conversion = convert(as_python(document))
    assert conversion.refused is None
    assert [e for e in conversion.entries if e.message == NOT_KNOWN] == []
    assert "to decide" not in conversion.objects[-1]["spec"].get("image", "")
    assert {e.to for e in conversion.of_kind(Kind.DECIDE)} <= {
        *("spec.restart.policy", "spec.restoreFrom.checkpoints", "spec.image", "spec.application.env"),
    }


@pytest.mark.parametrize("path", [*files("kubeflow"), *files("apache")], ids=lambda p: p.stem)
def test_other_resources_are_refused_with_what_to_do_or_passed_over(path: Path) -> None:
    documents = [d for d in read(path) if not d["kind"].endswith("SparkApplication")]
    for conversion in convert_all(documents, DECIDED):
        ours = conversion.api_version.startswith(("sparkoperator.k8s.io/", "spark.apache.org/"))
        assert conversion.objects == ()
        assert conversion.passed_over != ours
        assert conversion.refused is None or conversion.refused.remedy
