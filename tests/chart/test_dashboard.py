"""The dashboard against Grafana's own types (@grafana/schema): tsc finds what Grafana does not have."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .test_chart import CHART

pytestmark = pytest.mark.browser  # Node and the packages of the page
UI = CHART.parents[1] / "ui"
RAW = "./node_modules/@grafana/schema/dist/types/raw"
# Of an enumeration, JSON has the values.
HEAD = f"""\
import type {{ Dashboard }} from "@grafana/schema";
import type * as timeseries from "{RAW}/composable/timeseries/panelcfg/x/types.gen";
import type * as table from "{RAW}/composable/table/panelcfg/x/types.gen";
type Plain<T> = T extends string ? `${{T}}` : T extends object ? {{ [K in keyof T]: Plain<T[K]> }} : T;
"""


def complaints(dashboard: Any, folder: Path) -> str:
    """What tsc says."""
    lines = [HEAD, f"export const dashboard: Plain<Dashboard> = {json.dumps(dashboard)};"]
    for panel in dashboard["panels"]:
        kind, number = panel["type"], panel["id"]
        custom = panel["fieldConfig"]["defaults"].get("custom", {})
        lines.append(
            f"export const options{number}: Plain<Partial<{kind}.Options>> = "
            f"{json.dumps(panel.get('options', {}))};"
        )
        lines.append(
            f"export const custom{number}: Plain<Partial<{kind}.FieldConfig>> = {json.dumps(custom)};"
        )
    (folder / "dashboard.ts").write_text("\n".join(lines))
    (folder / "node_modules").symlink_to(UI / "node_modules")
    options = [
        "--strict",
        "--noEmit",
        "--skipLibCheck",
        "--module",
        "esnext",
        "--moduleResolution",
        "bundler",
    ]
    command = [str(UI / "node_modules" / ".bin" / "tsc"), *options, "dashboard.ts"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def dashboard() -> Any:
    return json.loads((CHART / "dashboards" / "streamjob.json").read_text())


def test_it_is_one_that_grafana_knows(dashboard: Any, tmp_path: Path) -> None:
    assert complaints(dashboard, tmp_path) == ""


def test_a_field_that_grafana_does_not_have_is_found(dashboard: Any, tmp_path: Path) -> None:
    """The types would be worth nothing if they took everything."""
    dashboard["panels"][0]["gridPos"]["width"] = 8
    dashboard["panels"][1]["fieldConfig"]["defaults"]["units"] = "s"
    dashboard["panels"][2].setdefault("options", {})["legnd"] = {}
    found = complaints(dashboard, tmp_path)
    for name in ("width", "units", "legnd"):
        assert f'"{name}"' in found, found
