"""The last lines of a driver's log, fit to be read by everybody who may read a StreamJob: few, short, and without secrets.

A log may have anything in it. What looks like a secret (a value after a telling name, credentials in a URI, a key's or a token's
own form) is blotted out, rather too much than too little. What looks like nothing is not known as one: a script that prints
a bare password has published it.
"""

from __future__ import annotations

import re

LINES, LINE, ALL = 6, 200, 700  # lines, characters of a line, characters together
BLOT = "***"

# From where a name begins, or a long word would be tried at each of its letters.
_TELLING = r"passw(?:or)?d|secret|token|(?:api|access|private)[_.\-]?key|credential|sasl[._]jaas"
_NAME = rf"(?<![\w.\-])[\w.\-]*(?:{_TELLING})[\w.\-]*"
_FORMS = (
    # A quoted value with all of its words, any other one up to where it ends.
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


def last_words(log: str) -> str:
    """The end of it: whole lines as far as they fit, empty ones left out. Blotted out before it is cut, for half a secret is not
    recognised as one."""
    lines = [line.rstrip()[:LINE] for line in without_secrets(log).splitlines() if line.strip()][-LINES:]
    while len("\n".join(lines)) > ALL:
        lines = lines[1:]
    return "\n".join(lines)
