"""What a job left on storage, as JSON: its sink's rows, its offsets, its savepoints.

Runs without Spark in a pod.

look.py JOB     looks for /data/out/JOB, /data/checkpoints/*-JOB-*, /data/savepoints/*-JOB-*
"""

import json
import sys
from contextlib import suppress
from pathlib import Path

DATA = Path("/data")


def numbered(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())


def sink(output: Path) -> list[dict[str, int]]:
    """The rows of the committed files: the newest compaction of the sink's log and what came after it."""
    log = output / "_spark_metadata"
    compacted = sorted(
        (int(path.stem), path) for path in log.glob("*.compact") if not path.name.startswith(".")
    )
    last, files = (compacted[-1][0], [compacted[-1][1]]) if compacted else (-1, [])
    files += [log / str(number) for number in numbered(log) if number > last]
    entries = [json.loads(line) for path in files for line in path.read_text().splitlines()[1:]]
    # Spark writes file:///…, Hadoop file:/…; pathlib takes three slashes for one.
    paths = [Path(entry["path"].removeprefix("file:")) for entry in entries if entry["action"] == "add"]
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def query(checkpoint: Path) -> dict[str, object]:
    """The ends of its two logs, how many numbers it has read, and when each batch was committed."""
    offsets, commits = numbered(checkpoint / "offsets"), numbered(checkpoint / "commits")
    entry = (checkpoint / "offsets" / str(offsets[-1])).read_text().splitlines() if offsets else []
    numbers = json.loads(entry[2])["offset"] if len(entry) > 2 and '"offset"' in entry[2] else 0
    times = {}
    for commit in commits:
        with suppress(FileNotFoundError):  # Spark deletes old ones
            times[commit] = (checkpoint / "commits" / str(commit)).stat().st_mtime
    ends = {"offsets": (offsets or [-1])[-1], "commits": (commits or [-1])[-1]}
    return {**ends, "numbers": numbers, "times": times}


def main(job: str) -> None:
    output = DATA / "out" / job
    checkpoints = sorted(path.parent for path in DATA.glob(f"checkpoints/*-{job}-*/*/*/commits"))
    folders = [path for path in DATA.glob(f"savepoints/*-{job}-*/*") if path.is_dir()]
    savepoints = sorted(path for path in folders if path.name != "shared")  # what they have in common
    found = {
        "rows": sink(output) if output.exists() else [],
        "query": query(checkpoints[0]) if checkpoints else None,
        "savepoints": {str(path): (path / "manifest.json").exists() for path in savepoints},
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
