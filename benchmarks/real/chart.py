"""Results of real work: a file that ``--record`` keeps up to date, and the chart of it that the pages show.

The file has the median speeds of all contenders, by kind of work and number of workers. A run of some kinds replaces
theirs only. The chart is drawn from the file alone, so it can be drawn again without a run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.peers.child import ROOT
from benchmarks.real.kind import OURS, TORCH

RESULTS = ROOT / "benchmarks" / "real" / "results.json"
CHART = ROOT / "docs" / "real-work.svg"
SHOWN = "2 workers"
LEFT, RIGHT, TOP, ROW, WIDTH = 260, 486, 62, 28, 672

Results = dict[str, dict[str, dict[str, float]]]
"""Elements in a second: by the title of a kind of work, the workers, and the contender."""

STYLE = """
.card{fill:#fff;stroke:#ddd}.ours{fill:#7986cb}.peer{fill:#e0e3f5}.axis{stroke:#bbb}.mark{stroke:#222}
text{fill:#222}.small{fill:#666;font-size:12px}.name{font-weight:bold}
@media (prefers-color-scheme:dark){.card{fill:#1e1e24;stroke:#444}.ours{fill:#5c6bc0}.peer{fill:#c5cae9}
.axis{stroke:#555}text{fill:#eee}.small{fill:#aaa}}
""".strip()


def recorded(results: Results, to: Path = RESULTS, chart: Path = CHART) -> None:
    """Put results into the file, in place of older ones of the same kinds, and draw the chart anew."""
    known: dict[str, Any] = json.loads(to.read_text()) if to.exists() else {}
    to.write_text(f"{json.dumps(known | results, indent=2)}\n")
    chart.write_text(drawn(known | results))


def drawn(results: Results) -> str:
    """Return an SVG: a bar for each kind of work, in it the fastest peer's, and a mark for each other peer."""
    rows = {title: speeds[SHOWN] for title, speeds in results.items() if OURS in speeds.get(SHOWN, {})}
    height = TOP + ROW * len(rows) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"',
        f'font-family="system-ui, sans-serif" font-size="13"><style>{STYLE}</style>',
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text x="16" y="24" class="name">Real work with {SHOWN}: speed as a share of loader2\'s</text>',
        '<text x="16" y="44" class="small">dark: loader2; light: fastest peer; marks: other peers, torch wide</text>',
        *(_row(title, speeds, TOP + ROW * n) for n, (title, speeds) in enumerate(rows.items())),
        *(_tick(share / 4, height - 30) for share in range(5)),
    ]
    return "\n".join([*parts, "</svg>\n"])


def _row(title: str, speeds: dict[str, float], y: int) -> str:
    ours = speeds[OURS]
    peers = sorted(((speed, name) for name, speed in speeds.items() if name != OURS), reverse=True)
    parts = [
        f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(title)}</text>',
        f'<rect class="ours" x="{LEFT}" y="{y + 2}" width="{RIGHT - LEFT}" height="20" rx="2"/>',
    ]
    for speed, name in peers[:1]:
        parts.append(
            f'<rect class="peer" x="{LEFT}" y="{y + 6}" width="{_at(speed / ours) - LEFT:.1f}" height="12" rx="2"/>'
            f'<text x="{RIGHT + 14}" y="{y + 16}"><tspan class="name">{_ratio(ours / speed)} x</tspan> '
            f"{escape(name)}</text>"
        )
    for speed, name in peers[1:]:
        x = f"{_at(speed / ours):.1f}"
        wide = 3 if name == TORCH else 1
        parts.append(
            f'<line class="mark" x1="{x}" x2="{x}" y1="{y + 2}" y2="{y + 22}" stroke-width="{wide}">'
            f"<title>{escape(name)}</title></line>"
        )
    return "".join(parts)


def _tick(share: float, y: int) -> str:
    return (
        f'<line class="axis" x1="{_at(share)}" x2="{_at(share)}" y1="{y}" y2="{y + 5}"/>'
        f'<text class="small" x="{_at(share)}" y="{y + 20}" text-anchor="middle">{share:g}</text>'
    )


def _at(share: float) -> float:
    return LEFT + (RIGHT - LEFT) * min(share, 1.0)


def _ratio(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 2 else f"{ratio:.2f}"
