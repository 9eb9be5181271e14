"""`buddy explain --plot`: what lies where in the arenas, and when."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from buddy.aot.errors import BundleError
from buddy.aot.remarks import ASSUMED_SIZE, Arena, human


def draw(arenas: Sequence[Arena], name: str, path: Path) -> None:
    """Draw a panel for each arena: time from left to right, addresses upwards, a box a buffer.

    The suffix of `path` says which kind of picture; matplotlib knows png, svg and pdf.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Rectangle

    if not arenas:
        raise BundleError("--plot: there is no arena to draw")
    figure, grid = pyplot.subplots(
        len(arenas), 1, figsize=(10, 4 * len(arenas)), squeeze=False, layout="constrained"
    )
    colors = pyplot.get_cmap("tab20")
    for axes, arena in zip(grid[:, 0], arenas, strict=True):
        for number, buffer in enumerate(arena.buffers):
            left, height = buffer.begin, buffer.size / 1024
            box = (left, buffer.offset / 1024)
            width = buffer.end - left + 1
            axes.add_patch(
                Rectangle(box, width, height, facecolor=colors(number % 20), edgecolor="black",
                          linewidth=0.4)
            )  # fmt: skip
            if buffer.size > arena.size / 25 and width > arena.end / 8:  # room for a label
                axes.text(left + width / 2, box[1] + height / 2, buffer.what, fontsize=6,
                          ha="center", va="center", clip_on=True)  # fmt: skip
        axes.set(xlim=(0, arena.end + 1), ylim=(0, max(arena.size / 1024, 1)),
                 xlabel="operations, in program order", ylabel="KiB")  # fmt: skip
        axes.set_title(
            f"{name}: arena of @{arena.function}, {human(arena.size)} "
            f"(an unknown size taken for {ASSUMED_SIZE})",
            fontsize=9,
        )
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:
        raise BundleError(f"--plot {path}: {str(error).splitlines()[0]}") from None
    finally:
        pyplot.close(figure)
