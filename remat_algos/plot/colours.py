"""Styles in the Okabe-Ito colours, which colour-blind readers can distinguish and which differ in lightness."""

from dataclasses import dataclass

BLUE, ORANGE, GREEN, SKY = "#0072B2", "#E69F00", "#009E73", "#56B4E9"
VERMILION, PURPLE, YELLOW, BLACK, GREY, DARK, PALE, MINT, PLUM, WHITE = (
    *("#D55E00", "#CC79A7", "#F0E442", "#000000"),
    *("#8C8C8C", "#595959", "#BBD8EE", "#6CC5AE", "#B0608F", "#FFFFFF"),
)


@dataclass(frozen=True, slots=True)
class Style:
    """Style of a category: label, colour, character in text pictures, hatch of areas and marker of nodes."""

    label: str
    colour: str
    character: str
    hatch: str = ""
    marker: str = "o"


ROLES = {
    "kept": Style("kept", BLUE, "█"),
    "loaded": Style("loaded from the host", PLUM, "▚", hatch="\\\\\\\\"),
    "recomputed": Style("recomputed", ORANGE, "▒", hatch="////"),
    "gradients": Style("gradients", MINT, "░"),
    "workspace": Style("workspace", GREY, "·", hatch=".."),
}
"""Roles of memory, from the bottom of a stack to its top; the keys are those of `Simulation.trace_by_role`."""

CELLS = (
    Style("not live", WHITE, "·"),
    Style("live", PALE, "│"),
    Style("first run", BLUE, "█"),
    Style("recomputed", ORANGE, "▒"),
    Style("loaded from the host", PLUM, "▚"),
)
"""States of a node at a step; an entry of `schedule_cells` is an index into this tuple."""

NODES = {
    "kept": Style("kept", BLUE, "█", marker="o"),
    "freed": Style("freed before the backward part", WHITE, "○", marker="o"),
    "again": Style("runs twice", ORANGE, "▒", marker="D"),
    "often": Style("runs more than twice", VERMILION, "▓", marker="*"),
    "once": Style("must run only once", PURPLE, "■", marker="s"),
    "forward": Style("forward", BLUE, "█", marker="o"),
    "node": Style("node", BLUE, "█", marker="o"),
    "copy": Style("copy, a later run", ORANGE, "▒", marker="D"),
    "gradient": Style("gradient", MINT, "░", marker="^"),
    "idle": Style("never runs", GREY, "·", marker="x"),
}
"""Kinds of nodes; some apply only with a schedule, some only without one."""

TYPES = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, VERMILION)
STRUCTURES = (
    Style("feature maps", PALE, "█"),
    Style("other values", PALE, "▓", hatch=".."),
    Style("gradients", MINT, "░"),
    Style("weights", GREY, "▒"),
    Style("workspace", WHITE, "·", hatch="////"),
    Style("inputs", YELLOW, "-", hatch="\\\\\\\\"),
)
LEVELS = (BLUE, ORANGE, MINT, PURPLE, YELLOW, SKY, VERMILION, WHITE)
"""Colours of separator levels; all deeper levels share the last colour."""

TERMS = (
    Style("(i) kept before the block", BLUE, "█"),
    Style("(ii) the block and its gradients", ORANGE, "▒", hatch="////"),
    Style("(iii) gradients of later readers", MINT, "░"),
    Style("(iv) other inputs of later readers", PURPLE, "▓", hatch="\\\\\\\\"),
)
"""Terms of formula (2) of kusumoto2019, from the bottom of a bar to its top."""

CURVES = tuple(
    zip(
        (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK) * 4,
        "os^Dv*P" * 4,
        ("-", (0, (6, 2)), (0, (3, 3)), (0, (1, 2))) * 7,
        strict=True,
    )
)
"""(colour, marker, line style) of each curve in drawing order; the gaps of a dashed curve show the curves below it."""

INKS = {
    "light": {"paper": "#ffffff", "ink": "#1b1b1b", "edge": "#b5b5b5", "now": "#d55e00", "span": "#bbd8ee"}
    | {"kept": "#0072b2", "again": "#e69f00", "grad": "#2f9c7f", "loaded": "#b0608f"},
    "dark": {"paper": "#16181c", "ink": "#ececec", "edge": "#5a5e66", "now": "#ff8a4a", "span": "#274a63"}
    | {"kept": "#56b4e9", "again": "#f0b93a", "grad": "#6cc5ae", "loaded": "#d68bb8"},
}
"""Colours of animations; `report.css` repeats them, and a test compares the two."""
