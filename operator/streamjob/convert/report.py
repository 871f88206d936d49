"""What the user reads: StreamJobs as YAML, the account as text, or both as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from .conversion import Conversion
from .source import FieldRecord, Kind

WIDTH = 110
HEADINGS = {
    Kind.DECIDE: "To decide",
    Kind.CHANGED: "Translated with another meaning",
    Kind.DROPPED: "Without a counterpart",
    Kind.UNNEEDED: "Needs nothing",
}


class _Dumper(yaml.SafeDumper):
    """Writes a value that stands at two places twice, without an anchor."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def as_yaml(conversions: Sequence[Conversion]) -> str:
    """All objects, each a document. What is to decide stands above the StreamJob."""
    documents = []
    for conversion in conversions:
        for body in conversion.objects:
            decide = conversion.of_kind(Kind.DECIDE) if body is conversion.objects[-1] else ()
            comment = "".join(
                line + "\n"
                for entry in decide
                for line in _wrapped(f"Decide {entry.to}: {entry.message}", "# ", "#   ")
            )
            documents.append(comment + yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=WIDTH))
    return "---\n".join(documents)


def as_text(conversions: Sequence[Conversion]) -> str:
    """The account of each object, but for the fields that are kept with the same meaning."""
    return "\n".join("\n".join(_account(conversion)) + "\n" for conversion in conversions)


def as_json(conversions: Sequence[Conversion]) -> str:
    """Objects and accounts, with the fields that are kept."""
    body = [
        {
            "kind": c.kind,
            "apiVersion": c.api_version,
            "namespace": c.namespace,
            "name": c.name,
            "objects": list(c.objects),
            "entries": [_plain(entry) for entry in c.entries],
            "refused": c.refused
            and {"reason": c.refused.reason, "message": c.refused.message, "remedy": c.refused.remedy},
        }
        for c in conversions
    ]
    return json.dumps({"conversions": body}, indent=2) + "\n"


def _plain(entry: FieldRecord) -> dict[str, Any]:
    return {
        "kind": entry.kind.value,
        "path": entry.path,
        "to": entry.to,
        "message": entry.message,
        "fields": entry.fields,
    }


def _account(conversion: Conversion) -> Iterator[str]:
    place = f"{conversion.namespace}/" if conversion.namespace else ""
    title = f"{conversion.kind or 'document'} {place}{conversion.name}".rstrip()
    if conversion.refused:
        yield from _wrapped(f"{title}: refused: {conversion.refused}", "", "  ")
    elif conversion.passed_over:
        yield f"{title}: passed over, it is no SparkApplication; apply it yourself if the job needs it"
    else:
        job = conversion.objects[-1]["metadata"]["name"]
        kept = sum(entry.fields for entry in conversion.of_kind(Kind.KEPT))
        yield f"{title}: StreamJob {job}. {kept} fields have the same meaning."
        for kind, heading in HEADINGS.items():
            if entries := conversion.of_kind(kind):
                yield f"  {heading}:"
                for entry in entries:
                    yield from _wrapped(_line(entry), "    ", "      ")


def _line(entry: FieldRecord) -> str:
    place = " → ".join(part for part in (entry.path, entry.to) if part)
    count = f" ({entry.fields} fields)" if entry.fields > 1 else ""
    return f"{place}{count}: {entry.message}"


def _wrapped(text: str, first: str, further: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
