"""What a text says differently in a cluster and at the terminal of a local job: where its reader acts.

Such a text has a placeholder: `Restore another one, or <allow-drained>`. `StreamJobError` fills its own
texts; other texts with a placeholder go through `fill`.
"""

from __future__ import annotations

import re

# In a cluster; on a laptop.
WORDS = {
    "new-job": (
        "make a new StreamJob with spec.restoreFrom.savepoint",
        "start with another --state and --restore",
    ),
    "and-allow-drained": ("and spec.restoreFrom.allowDrained", "and --allow-drained"),
    "allow-drained": ("set spec.restoreFrom.allowDrained to true", "use --allow-drained"),
    "adopt": ("name it in spec.restoreFrom.checkpoints", "make a savepoint of it (savepoint adopt)"),
    "allow-lost-state": (
        "set spec.restoreFrom.allowNonRestoredState to true",
        "use --allow-non-restored-state",
    ),
    "in-container": (" in the driver's container", ""),
    "log": ("the driver's log", "what the job has printed"),
    "memory": ("spec.driver.memory", "spark.driver.memory in spark-defaults.conf"),
    "executor-memory": ("spec.executor.memory", "spark.executor.memory"),
    "local-folder": ("the local folder of the pods (/tmp)", "Spark's local folder (spark.local.dir)"),
    "checkpoints": ("spec.storage.checkpoints", "the job's folder (--state)"),
    "spark-conf": ("spec.sparkConf", "spark-defaults.conf"),
    "master": ("the operator gives the driver its master", "without a master Spark takes all cores"),
    "script": ("the script (spec.application.file)", "the script"),
    "image": ("the image", "this machine"),
    "image-with": ("use an image with", "install"),
    "jars": (
        "add the connector's jars to the image (docs/operations.md, On S3)",
        "name the connector in spark.jars.packages of spark-defaults.conf",
    ),
    "mounted": (", and that its volume is mounted", ""),
    "whose": ("the driver's", "your"),
    "identity": ("its keys or the pod's identity are right", "its keys are right"),
}
_PLACEHOLDER = re.compile(f"<({'|'.join(WORDS)})>", re.IGNORECASE)
_on_laptop = False


def speak_of_laptop(*, on: bool = True) -> None:
    """From now on this process speaks to somebody at a terminal, as a process has one locale."""
    global _on_laptop  # noqa: PLW0603
    _on_laptop = on


def fill(text: str) -> str:
    """The text for where this process runs. A placeholder with a capital begins a sentence."""
    return _PLACEHOLDER.sub(_word, text)


def _word(found: re.Match[str]) -> str:
    word = WORDS[found[1].lower()][_on_laptop]
    return word[:1].upper() + word[1:] if found[1][0].isupper() else word
