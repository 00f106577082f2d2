"""Draw what commands print: ``python scripts/terminal_picture.py OUT.svg COMMAND...``.

Every command runs in a pseudo-terminal, and the picture has what it printed, colours included. A
`cd` of the caller's is not shown: run it where the commands are to run.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

WIDTH = 88
PAPER, INK = (250, 250, 248), (36, 41, 46)
COLOURS = [INK, (192, 57, 43), (34, 120, 80), (150, 110, 0), (31, 97, 163), (120, 70, 150)]
THEME = TerminalTheme(PAPER, INK, [*COLOURS, (0, 120, 130), (110, 118, 129)])
# rich's own frame loads a font from elsewhere; a page that loads nothing has the reader's.
FRAME = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def printed(command: str) -> str:
    """Run a command in a pseudo-terminal and return what it printed."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    running = subprocess.Popen(
        command, shell=True, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so at the end
            break
        if not piece:
            break
        pieces.append(piece)
    if running.wait() != 0:
        raise SystemExit(f"{command} failed:\n{b''.join(pieces).decode()}")
    return last_state(b"".join(pieces).decode())


def last_state(text: str) -> str:
    """Return text as a terminal leaves it: bars that were taken away are gone."""
    text = re.sub(r"\x1b\[\?25[hl]", "", text)
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        ups = line.count("\x1b[1A")
        del lines[len(lines) - ups :]
        lines.append(re.split(r"\r|\x1b\[2K", line)[-1])
    return "\n".join(lines).strip("\n")


def main() -> None:
    out, commands = Path(sys.argv[1]), sys.argv[2:]
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    for number, command in enumerate(commands):
        if number:
            console.print()
        console.print(Text("$ ", "bold green") + Text(command, "bold"), soft_wrap=False)
        console.print(Text.from_ansi(printed(command)))
    drawn = console.export_svg(title="", theme=THEME, code_format=FRAME)
    out.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
