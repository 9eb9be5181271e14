"""`--plot`: the roofline of a report, as a PNG."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from buddy.aot.errors import BundleError


def draw(record: Mapping[str, Any], path: Path) -> None:
    """Draw the measured peaks as lines and one dot for each case and implementation.

    Cases without operations (element-wise ones) count one for each four bytes moved, so that they
    lie on the read line at their share of it.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    cases = [case for case in record["cases"] if case["bytes"]]
    if not record["peaks"] or not cases:
        raise BundleError("--plot: no case here has a roof to be drawn under")
    read = record["peaks"]["read_gbs"]
    gflops = record["peaks"]["gflops"] or {"read only": read / 4}
    figure, axes = pyplot.subplots(figsize=(9, 6))
    points: dict[str, list[tuple[float, float]]] = {}
    for case in cases:
        flops = case["flops"] or case["bytes"] / 4
        for name, milliseconds in case["ms"].items():
            points.setdefault(name, []).append((flops / case["bytes"], flops / milliseconds / 1e6))
    intensities = [x for dots in points.values() for x, _ in dots]
    low = min(intensities) / 2
    high = 2 * max(*intensities, *(peak / read for peak in gflops.values()))
    for dtype, peak in gflops.items():
        corners = [low, peak / read, high]
        axes.plot(corners, [min(peak, x * read) for x in corners],
                  label=f"{dtype}: {peak:.0f} GFLOP/s, {read:.1f} GB/s", linewidth=1.2)  # fmt: skip
    for marker, (name, dots) in zip("o^sDvPX*" * len(points), points.items(), strict=False):
        xs, ys = zip(*dots, strict=True)
        axes.scatter(xs, ys, marker=marker, label=name, s=28, alpha=0.8, zorder=3)
    axes.set(xscale="log", yscale="log", xlabel="operations a byte", ylabel="GFLOP/s")
    host = record["machine"]
    title = f"buddy {record['command']}, {host['threads']} threads, {host['cpu']}"
    axes.set_title(title, fontsize=10)
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
