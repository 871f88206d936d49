"""A recording of a real terminal, in tmux, as an SVG that moves."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS, LINES = 110, 40
LOOK_EVERY = 0.1  # seconds
LAST = 4.0  # seconds for which the last frame stays before the recording begins again


@dataclass
class Recording:
    """What a terminal showed while a command ran.

    :param frames: second of the beginning, and the screen as text with ANSI escapes.
    """

    title: str
    frames: list[tuple[float, str]] = field(default_factory=list)
    seconds: float = 0.0
    code: int | None = None

    def texts(self) -> list[str]:
        """The frames without colours."""
        return [re.sub(r"\x1b\[[0-9;]*m", "", text) for _, text in self.frames]

    def svg(self) -> str:
        """The frames one after the other, as long as each of them was there."""
        height = max(len(text.splitlines()) for text in self.texts())
        pictures = [_picture(self.title, n, text, height) for n, (_, text) in enumerate(self.frames)]
        whole = self.seconds + LAST
        ends = [*(begin for begin, _ in self.frames[1:]), whole]
        rules, body = [], []
        for n, ((begin, _), end, picture) in enumerate(zip(self.frames, ends, pictures, strict=True)):
            first, last = 100 * begin / whole, 100 * end / whole
            hidden = f"0%{{opacity:0}}{first:.3f}%{{opacity:1}}" if n else "0%{opacity:1}"
            until = f"{last:.3f}%{{opacity:0}}100%{{opacity:0}}" if end < whole else "100%{opacity:1}"
            rules.append(f"@keyframes k{n}{{{hidden}{until}}}")
            rules.append(f"#frame{n}{{animation:k{n} {whole:.2f}s step-end infinite}}")
            body.append(f'<g id="frame{n}">{picture}</g>')
        # Who wants no motion sees the end.
        still = "".join(f"#frame{n}{{animation:none;opacity:0}}" for n in range(len(body) - 1))
        still += f"#frame{len(body) - 1}{{animation:none;opacity:1}}"
        rules.append(f"@media (prefers-reduced-motion: reduce){{{still}}}")
        found = re.search(r'viewBox="([^"]+)"', pictures[0])
        assert found is not None
        name = f'role="img" aria-label="{self.title}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{found[1]}" {name}>'
        return f"{head}<style>{''.join(rules)}</style>{''.join(body)}</svg>\n"


def record(title: str, command: Sequence[str], environment: Mapping[str, str]) -> Recording:
    """Run a command in a terminal to its end."""
    with tempfile.TemporaryDirectory() as folder:
        tmux = ["tmux", "-f", "/dev/null", "-S", str(Path(folder) / "socket")]

        def ask(*words: str) -> str:
            return subprocess.run([*tmux, *words], capture_output=True, text=True, check=True).stdout

        variables = [word for pair in environment.items() for word in ("-e", "=".join(pair))]
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        # The terminal would be gone with the command.
        ended = Path(folder) / "code"
        line = f"{shlex.join(command)}; echo $? >{ended}; exec sleep infinity"
        recording, began = Recording(title), time.monotonic()
        ask("new-session", "-d", *size, *variables, "sh", "-c", line)
        try:
            while recording.code is None:
                code = ended.read_text() if ended.exists() else ""
                text = ask("capture-pane", "-p", "-e").rstrip()
                recording.seconds = time.monotonic() - began
                if text and (not recording.frames or recording.frames[-1][1] != text):
                    recording.frames.append((recording.seconds if recording.frames else 0.0, text))
                recording.code = int(code) if code.strip() else None
                time.sleep(LOOK_EVERY)  # a terminal tells nobody of a change
        finally:
            ask("kill-server")
    return recording


def _picture(title: str, number: int, text: str, height: int) -> str:
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    lines = text.splitlines()
    console.print(Text.from_ansi("\n".join([*lines, *[""] * (height - len(lines))])), crop=True)
    drawn = console.export_svg(title=title, unique_id=f"f{number}")
    # Its font comes from a server; the terminal's own is there.
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
