"""The entry point of the driver process.

    python -m streamjob.runtime                         in a driver pod, configured by STREAMJOB_CONFIG
    python -m streamjob.runtime --local app.py [ARGS]   on a laptop, without Kubernetes
    python -m streamjob.runtime check app.py [ARGS]     say whether a new version continues from a job's state
    python -m streamjob.runtime savepoint COMMAND …     inspect, verify, copy and delete savepoints
    python -m streamjob.runtime state COMMAND …         show rows of the state in a savepoint or checkpoint

The exit code of a job is that of its script, except:

    1     the script exits with 0 but has started no query, or a query fails after that;
          in a pod, the index is lost and the checkpoint record cannot be recovered from its savepoint
    2     the job cannot begin (it is configured wrongly, runs already, or was drained), or the arguments are
          wrong: the script has not run. A query that is refused is an exception in the script
    130   in local mode, a second Ctrl-C cancels the job
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ..protocol.errors import StreamJobError
from ..protocol.messages.driver_config import Application, Restore
from ..protocol.wording import speak_of_laptop

EXAMPLES = """
In a driver pod, the controller sets STREAMJOB_CONFIG. A script that is named here runs
instead of the one that is named there:
    args: ["python", "-m", "streamjob.runtime", "/app/orders.py"]

On a laptop, the same script stops, resumes and drains as it does in a cluster. Ctrl-C
stops it with a savepoint; a second Ctrl-C cancels it.

Start, or resume from the latest checkpoint:
    python -m streamjob.runtime --local orders.py
The same, with a page in the browser:
    python -m streamjob.runtime --local --ui orders.py
From cron: one round of a script with availableNow. Windows stay open for the next:
    python -m streamjob.runtime --local --round orders.py
Emit every open window and end for good:
    python -m streamjob.runtime --local --drain orders.py
Replace the running job by a new version of its script, almost without a pause:
    python -m streamjob.runtime --local --handover orders.py
Start another job from a savepoint:
    python -m streamjob.runtime --local --state /tmp/fork \\
        --restore file:///tmp/orders/savepoints/stop-1 orders.py

Say whether a new version continues from the state of its job:
    python -m streamjob.runtime check --state .streamjob/orders orders-v2.py

List, describe, verify, export, delete or adopt savepoints, without a job:
    python -m streamjob.runtime savepoint --help
"""


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["savepoint"]:
        from .savepoints import cli  # noqa: PLC0415  as below

        return _until_the_reader_leaves(lambda: cli.main(arguments[1:]))
    if arguments[:1] == ["state"]:
        from .savepoints.rows import cli as state  # noqa: PLC0415

        return _until_the_reader_leaves(lambda: state.main(arguments[1:]))
    if arguments[:1] == ["check"]:
        from .process import check  # noqa: PLC0415

        return _until_the_reader_leaves(lambda: check.main(arguments[1:]))
    options = parser().parse_args(arguments)
    application = Application(file=options.script, args=tuple(options.args)) if options.script else None
    from .process import config, logs  # noqa: PLC0415

    logs.begin()
    speak_of_laptop(on=options.local)
    try:
        if options.local and application is None:
            raise config.NotConfigured("--local needs a script", remedy="See --help")
        from .process.image import floor  # noqa: PLC0415  imports pyspark

        floor.refuse_image(in_pod=not options.local)
        from .process import pod  # noqa: PLC0415  older pysparks lack what it imports
        from .process.local import job_folder, run  # noqa: PLC0415

        if not options.local:
            return pod.run(application)
        assert application is not None
        place = job_folder.JobFolder(Path(options.state or f".streamjob/{Path(options.script).stem}"))
        begin = Restore(
            savepoint=options.restore,
            allow_drained=options.allow_drained,
            allow_non_restored_state=options.allow_non_restored_state,
        )
        return run.run(
            application,
            place,
            begin,
            drain=options.drain,
            handover=options.handover,
            ui=options.ui,
            one_round=options.round,
        )
    except StreamJobError as e:
        print(f"streamjob: {e.reason}: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the signals are the job's
        print("streamjob: interrupted before the script began", file=sys.stderr)
        return 130


def _until_the_reader_leaves(command: Callable[[], int]) -> int:
    """Run a command. Who reads its output may leave before its end, as `| head` does.

    :returns: the exit code; 0 if the reader has left before it was known.
    """
    code = 0
    try:
        code = command()
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer would fail once more when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m streamjob.runtime",
        description="Run a PySpark script so that its streaming queries can be stopped, resumed and drained.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--local", action="store_true", help="run without Kubernetes")
    p.add_argument(
        "--state",
        metavar="DIR",
        help="with --local: the folder of checkpoints, savepoints and the index (default: .streamjob/SCRIPT)",
    )
    p.add_argument(
        "--ui",
        action="store_true",
        help="with --local: serve the page of the job as long as it runs, and print its address",
    )
    p.add_argument(
        "--handover",
        action="store_true",
        help="with --local: if the job runs already, take over from that process. It is asked to stop only "
        "when this script is about to start its first query",
    )
    p.add_argument(
        "--round",
        action="store_true",
        help="with --local: the script ends by itself and runs again later, from cron for instance: its end "
        "keeps the windows instead of emitting them",
    )
    p.add_argument("--drain", action="store_true", help="with --local: drain the job")
    p.add_argument("--restore", metavar="URI", help="with --local: start from this savepoint")
    p.add_argument(
        "--allow-drained", action="store_true", help="with --restore: the savepoint may be one of a drain"
    )
    p.add_argument(
        "--allow-non-restored-state",
        action="store_true",
        help="with --local: the script need not start every query of the checkpoint; the state of missing "
        "queries is lost",
    )
    p.add_argument("script", nargs="?", help="the PySpark script to run; required with --local")
    p.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")
    return p


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
