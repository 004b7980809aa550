"""What things look like: colours of Okabe and Ito, told apart by colour-blind readers and, by lightness, in grey."""

from dataclasses import dataclass

BLUE, ORANGE, GREEN, SKY = "#0072B2", "#E69F00", "#009E73", "#56B4E9"
VERMILION, PURPLE, YELLOW, BLACK, GREY, PALE, MINT, WHITE = (
    *("#D55E00", "#CC79A7", "#F0E442", "#000000"),
    *("#8C8C8C", "#BBD8EE", "#6CC5AE", "#FFFFFF"),
)


@dataclass(frozen=True, slots=True)
class Look:
    """How one kind of thing is called and drawn.

    Parameters
    ----------
    label : str
    colour : str
    character : str
        In plain text.
    hatch : str
        Of areas.
    marker : str
        Of nodes.
    """

    label: str
    colour: str
    character: str
    hatch: str = ""
    marker: str = "o"


ROLES = {
    "kept": Look("kept", BLUE, "█"),
    "recomputed": Look("recomputed", ORANGE, "▒", hatch="////"),
    "gradients": Look("gradients", MINT, "░"),
    "workspace": Look("workspace", GREY, "·", hatch="...."),
}
"""What holds bytes, from the bottom of a stack to its top; the keys of `Simulation.trace_by_role`."""

CELLS = (
    Look("not held", WHITE, "·"),
    Look("held", PALE, "│"),
    Look("first run", BLUE, "█"),
    Look("recomputed", ORANGE, "▒"),
)
"""What a schedule does with a node at a step; an entry of `schedule_cells` is a place here."""

NODES = {
    "kept": Look("kept", BLUE, "█", marker="o"),
    "freed": Look("freed before the backward part", WHITE, "○", marker="o"),
    "again": Look("runs twice", ORANGE, "▒", marker="D"),
    "often": Look("runs more than twice", VERMILION, "▓", marker="*"),
    "once": Look("must run only once", PURPLE, "■", marker="s"),
    "forward": Look("forward", BLUE, "█", marker="o"),
    "copy": Look("copy, a later run", ORANGE, "▒", marker="D"),
    "gradient": Look("gradient", MINT, "░", marker="^"),
    "idle": Look("never runs", GREY, "·", marker="x"),
}
"""What a node of a graph is, without a schedule or in one."""

CURVES = tuple(
    zip(
        (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK) * 4,
        "os^Dv*P" * 4,
        ("-", (0, (6, 2)), (0, (3, 3)), (0, (1, 2))) * 7,
        strict=True,
    )
)
"""(colour, marker, line style) of curves, in turn: what lies below a dashed line shows in its gaps."""
