"""The commands: their help, their examples, their options, and what they import."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dev.docs import click_commands
from streamjob.cli import __main__ as command_line
from streamjob.cli import table
from streamjob.cli.__main__ import complete
from streamjob.cli.commands import convert
from streamjob.cli.errors import ExitCode
from streamjob.cli.group import main as group

ROOT = Path(__file__).parents[2]
COMMANDS = list(click_commands.commands())
Output = pytest.CaptureFixture[str]


def words(text: str) -> list[str]:
    return re.findall(r"[\w.,;:'-]+", text)


def test_the_quick_help_is_clicks_help() -> None:
    with click.Context(group, info_name="streamjob", terminal_width=100) as context:
        assert words(group.get_help(context)) == words(table.usage("streamjob"))


@pytest.mark.parametrize(
    ("typed", "says"),
    [("statsu", "No such command 'statsu'. Did you mean 'status'?"), ("xyzzy", "No such command 'xyzzy'.")],
)
def test_a_mistyped_command(typed: str, says: str) -> None:
    with pytest.raises(click.UsageError) as e:
        group.main([typed, "orders"], prog_name="streamjob", standalone_mode=False)
    assert e.value.format_message() == says


def test_nobody_has_to_read_all_of_it() -> None:
    """As with `| head -0`: the reader has gone before anything is written."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "streamjob.cli", "--help"],
        stdout=write,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "operator")},
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_it_is_there_without_click(arguments: list[str], capsys: Output) -> None:
    assert command_line.main(arguments) == 0
    assert capsys.readouterr().out == table.usage(command_line.program())


@pytest.mark.parametrize(
    ("name", "command"), [(n, c) for n, c, _ in COMMANDS], ids=[n for n, _, _ in COMMANDS]
)
def test_each_command_has_help_with_examples(name: str, command: click.Command) -> None:
    assert command.help
    assert command.help.strip().split("\n")[0].endswith(".")
    if isinstance(command, click.Group):
        return
    examples = click_commands.examples(command)
    assert name.removeprefix("kubectl ") in examples
    for line in examples.splitlines():
        for part in line.split(" && "):
            _parses(shlex.split(part.partition(" | ")[0], comments=True))


def _parses(example: list[str]) -> None:
    """The options of the example are the command's."""
    if example[:2] not in (["kubectl", "streamjob"], ["streamjob", *example[1:2]]):
        return
    example = example[2:] if example[0] == "kubectl" else example[1:]
    command: click.Command = group
    context = click.Context(group, info_name="streamjob")
    while isinstance(command, click.Group):
        found = command.get_command(context, example.pop(0))
        assert found is not None
        command = found
    if "--local" in example:
        example[example.index("--local") + 1] = str(ROOT)
    command.make_context("streamjob", example, parent=context)


def test_the_table_has_the_words_of_each_commands_help() -> None:
    for name, command, context in COMMANDS:
        if isinstance(command, click.Group):
            entries = getattr(command, "entries", {})
            for part, entry in entries.items():
                found = command.get_command(context, part)
                assert found is not None
                assert found.get_short_help_str(200) == entry.text, f"{name} {part}"


def test_the_manual_page_is_that_of_today() -> None:
    page = ROOT / "docs/man/kubectl-streamjob.1"
    assert page.read_text() == click_commands.man(), "run `make command`"


def test_the_exit_codes_are_in_the_manual_page() -> None:
    codes = re.findall(r"(?m)^\.TP\n(\d+)$", click_commands.man())
    assert [int(code) for code in codes] == [code.value for code in ExitCode]


def test_the_reference_has_every_command_and_option() -> None:
    page = click_commands.reference()
    for name, command, context in COMMANDS:
        assert f" {name}\n" in page
        for flag, _ in click_commands.options_of(command, context):
            assert f"`{flag}`" in page


def test_options_of_kubectl_are_passed_on_before_and_behind_the_command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is printed is what `echo` got in the place of kubectl: no JSON, so the command fails."""
    monkeypatch.setenv("KUBECTL", "sh -c 'echo \"$@\" >&2; exit 1' kubectl")
    code = command_line.main(["--context", "prod", "status", "orders", "-n", "streams", "--as", "jane"])
    expected = "--context prod --as jane --namespace streams get streamjobs.streamjob.dev orders -o json"
    assert capfd.readouterr().err.splitlines()[0] == f"error: {expected}"
    assert code == ExitCode.CLUSTER


def test_a_mistake_is_clicks_to_tell(capsys: Output) -> None:
    assert command_line.main(["status", "--wrong"]) == ExitCode.USAGE
    assert "No such option" in capsys.readouterr().err
    assert command_line.main(["stop"]) == ExitCode.USAGE
    assert "Missing argument 'NAME'" in capsys.readouterr().err


def test_convert_has_the_options_that_it_always_had(capsys: Output) -> None:
    with pytest.raises(SystemExit) as e:
        command_line.main(["convert", "--help"])
    assert e.value.code == 0
    assert "--restore QUERY=URI" in capsys.readouterr().out
    assert convert.convert.short_help == table.COMMANDS["convert"].text


def test_a_job_is_completed_by_its_name(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setenv("KUBECTL", "printf 'orders\\tRunning\\nother\\tStopped\\n' #")
    monkeypatch.setenv("KUBECTL", "sh -c 'printf \"orders\\\\tRunning\\\\nother\\\\tStopped\\\\n\"'")
    for typed, shown in (
        (["stop", ""], ["orders\tRunning", "other\tStopped"]),
        (["stop", "ot"], ["other\tStopped"]),
        (["sav"], ["savepoint\tTake, list, check and delete savepoints"]),
        (["savepoint", "ver"], ["verify\tCompare every file of a savepoint with its hash"]),
    ):
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-streamjob", *typed])
        assert complete() == 0
        assert capsys.readouterr().out.splitlines() == [*shown, ":4"]


def test_without_a_cluster_nothing_is_completed(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setenv("KUBECTL", "false")
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-streamjob", "stop", ""])
    assert complete() == 0
    assert capsys.readouterr().out == ":4\n"


IMPORTED = """
import sys
sys.argv = ["streamjob", *sys.argv[1:]]
from streamjob.cli.__main__ import main
main()
print(*sorted(sys.modules), file=sys.stderr)
"""
HEAVY = {"pydantic", "yaml", "rich", "pyspark", "kopf", "kubernetes", "aiohttp", "logging", "asyncio", "http"}


@pytest.mark.parametrize(("arguments", "never"), [(["--help"], HEAVY | {"click"}), (["status"], HEAVY)])
def test_what_takes_long_to_import_is_not_imported(arguments: list[str], never: set[str]) -> None:
    """Plain output needs no rich. This is why the command is there at once."""
    environment = {
        **os.environ,
        "KUBECTL": "sh -c 'echo {\\\"items\\\": []}'",
        "PYTHONPATH": str(ROOT / "operator"),
    }
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    modules = set(done.stderr.splitlines()[-1].split())
    assert "streamjob.cli" in modules
    assert not modules & never
