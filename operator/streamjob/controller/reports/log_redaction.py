"""Log redaction: the last lines of a driver's log, few, short and without secrets.

Everybody who may read a StreamJob may read these lines, and a log may contain anything. Whatever looks like a
secret (a value after a telling name, credentials in a URI, the typical form of a key or token) is redacted,
rather too much than too little. A secret that looks like ordinary text is not recognised: a script that
prints a bare password has published it.
"""

from __future__ import annotations

import re

LINES, LINE, ALL = 6, 200, 700  # lines, characters of a line, characters together
BLOT = "***"

# A match begins only where a name begins; otherwise the regex would try a long word at each of its letters.
_TELLING = r"passw(?:or)?d|secret|token|(?:api|access|private)[_.\-]?key|credential|sasl[._]jaas"
_NAME = rf"(?<![\w.\-])[\w.\-]*(?:{_TELLING})[\w.\-]*"
_FORMS = (
    # A quoted value with all of its words; an unquoted one up to its end.
    re.compile(rf"(?i)({_NAME}[\"']?\s*(?:=>|[=:])\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&)\]}}]+)"),
    re.compile(r"(?i)(\b(?:bearer|basic)\s+)([\w.~+/\-]{8,}=*)"),
    re.compile(r"(\w://)([^/\s@]+)(?=@)"),
    re.compile(r"()\b((?:AKIA|ASIA)[0-9A-Z]{16})\b"),
    re.compile(r"()\b(eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*)"),
    re.compile(r"(?s)()(-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))"),
)


def without_secrets(text: str) -> str:
    for form in _FORMS:
        text = form.sub(rf"\1{BLOT}", text)
    return text


def end_of_log(log: str) -> str:
    """Return the end of the log.

    These are the last LINES lines that are not empty, each cut to LINE characters, and of them as many as fit
    into ALL. Secrets are redacted before anything is cut, because half a secret is not recognised.
    """
    lines = [line.rstrip()[:LINE] for line in without_secrets(log).splitlines() if line.strip()][-LINES:]
    while len("\n".join(lines)) > ALL:
        lines = lines[1:]
    return "\n".join(lines)
