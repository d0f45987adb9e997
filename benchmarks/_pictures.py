"""Line charts as SVG files, written without any library: readable on a light and on a dark page, and in grey.

A picture takes its colours from the reader's setting (``prefers-color-scheme``), which browsers hand on to pictures in
a page. Lines differ in their dashes as well as in their colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 420, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 34, 44
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #333 }
  .title { font-weight: 600; font-size: 13px }
  .grid { stroke: #ddd } .axis { stroke: #666 }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round }
  .l0 { stroke: #1f5fbf } .l1 { stroke: #c2410c; stroke-dasharray: 7 3 } .l2 { stroke: #15803d; stroke-dasharray: 2 3 }
  .l3 { stroke: #777; stroke-dasharray: 10 3 2 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .grid { stroke: #444 } .axis { stroke: #999 }
    .l0 { stroke: #7fb0ff } .l1 { stroke: #ff9d5c } .l2 { stroke: #6fdc8c } .l3 { stroke: #aaa }
  }
"""


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    title: str
    x: str
    y: str
    lines: Sequence[Line]


def picture(charts: Sequence[Chart], description: str) -> str:
    """The charts beside each other, with one legend; ``description`` is for those who do not see them."""
    width, height = WIDTH * len(charts), HEIGHT + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(description)}">',
        f"<style>{_STYLE}</style>",
    ]
    # One scale for all, so that they can be compared.
    values = [value for chart in charts for line in chart.lines for _, value in line.points]
    y_ticks = ticks(min(values), max(values))
    for number, chart in enumerate(charts):
        parts += [f'<g transform="translate({number * WIDTH} 0)">', *_chart(chart, y_ticks), "</g>"]
    parts += [*_legend([line.name for line in charts[0].lines], width), "</svg>", ""]
    return "\n".join(parts)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, about five, from at most ``low`` to at least ``high``."""
    rough = (high - low or abs(high) or 1.0) / 4
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    return [round(i * step, 10) for i in range(floor(low / step), ceil(high / step) + 1)]


def _chart(chart: Chart, y_ticks: Sequence[float]) -> list[str]:
    x_ticks = ticks(0.0, max(x for line in chart.lines for x, _ in line.points))

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * x / x_ticks[-1]

    def down(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])

    bottom = HEIGHT - BOTTOM
    parts = [f'<text class="title" x="{LEFT}" y="18">{escape(chart.title)}</text>']
    for y in y_ticks:
        parts.append(f'<path class="grid" d="M{LEFT} {down(y):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in x_ticks:
        parts.append(f'<text x="{across(x):.1f}" y="{bottom + 16}" text-anchor="middle">{x:g}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{bottom + 34}" text-anchor="middle">{escape(chart.x)}</text>')
    turned = f"translate(13 {(TOP + bottom) / 2}) rotate(-90)"
    parts.append(f'<text transform="{turned}" text-anchor="middle">{escape(chart.y)}</text>')
    for number, line in enumerate(chart.lines):
        way = "L".join(f"{across(x):.1f} {down(y):.1f}" for x, y in line.points)
        parts.append(f'<path class="line l{number}" d="M{way}"/>')
    return parts


def _legend(names: Sequence[str], width: int) -> list[str]:
    parts, room = [], 150
    begin = (width - room * len(names)) / 2
    for number, name in enumerate(names):
        x = begin + room * number
        parts.append(f'<path class="line l{number}" d="M{x} {HEIGHT + 8}h34"/>')
        parts.append(f'<text x="{x + 42}" y="{HEIGHT + 12}">{escape(name)}</text>')
    return parts
