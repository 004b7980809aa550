"""Tuning constants: sizes and limits of pictures. The comment at each one describes its trade-off."""

# Font sizes in points: of boxes and bars, of legends, of buffer names. Higher: more legible, less text fits.
FONT, LEGEND_FONT, NAME_POINTS = 8, 9, 7
# Width of a letter in units of the font size, slightly above the mean of DejaVu Sans. Higher: fewer names fit.
LETTER = 0.62
# LEGEND_ROW is the height of a row of a legend, LEVEL of a level of a lattice, and CELL of a cell of a schedule, in
# inches. Higher: more legible, larger pictures.
LEGEND_ROW, LEVEL, CELL = 0.19, 0.42, 0.24
# Inches: margin of a box, height of its text lines, minimum width of a picture. Higher: larger pictures.
PAD, LINE_HIGH, TITLE_WIDE = 0.07, 0.135, 3.6
# Minimum number of letters per line of a box. Higher: wider boxes, longer names.
MIN_LETTERS = 20
# In characters: minimum width of a text picture, left margin, maximum width of a step. Higher: more legible, less fits.
MIN_WIDTH, GUTTER, MAX_WIDE = 40, 10, 4
# Maximum numbers of columns of a memory curve, and of rows or columns of a schedule. Higher: finer, larger files.
MAX_COLUMNS, MAX_CELLS = 2_000, 600
# A budget above this multiple of the peak is only named in the legend. Higher: curves are drawn smaller.
MAX_PEAKS = 2.5
# WITHIN: a solver at most this many percent above the best counts as best. Higher: hides differences.
# TICKS: percentages with a tick on the axis.
WITHIN, TICKS = 1, (0, 0.1, 1, 10, 100, 1_000, 10_000)

# ---- drawings of graphs, in widths of a node
# Room for a bend, gap between the parts, maximum width of the gradients of a node. Higher: clearer, wider.
BEND, APART, WIDEST_LABEL = 0.4, 1.5, 4
# Maximum number of bends in a drawing. Higher: fewer edges cross nodes, more time.
MAX_BENDS = 20_000
# SWEEPS: number of sweeps that place nodes. ORDERINGS: maximum number of sweeps that reduce crossings.
# MAX_LAYOUT_WORK: maximum number of lines that these sweeps visit in total. Higher: clearer, more time.
SWEEPS, ORDERINGS, MAX_LAYOUT_WORK = 6, 40, 10_000_000

# ---- limits on what is drawn
# Maximum numbers of nodes drawn as boxes, nodes drawn as dots, bags, lower sets. Higher: slower, less legible.
MAX_BOXES, MAX_DOTS, MAX_BAGS, MAX_DRAWN_SETS = 150, 50_000, 200, 500
# Maximum numbers of nodes and edges of a graph that a notebook draws. Higher: larger drawings, larger notebooks.
MAX_DRAWN, MAX_EDGES = 400, 1_000
# Maximum numbers of buffers that are drawn with outlines, and with names. Higher: more details, less legible.
MAX_OUTLINED, MAX_NAMED_BUFFERS = 2_000, 400
# Maximum numbers of nodes and steps of reports and animations. Higher: larger plans, slower pages.
MAX_DRAWN_NODES, MAX_DRAWN_STEPS = 10_000, 10_000
# Animations name up to ALWAYS_NAMED nodes, or up to MAX_NAMES if the names fit, and up to MAX_CAPTIONS steps.
# Higher: larger files.
ALWAYS_NAMED, MAX_NAMES, MAX_CAPTIONS = 12, 25, 400
# In seconds: shortest and longest loop by default, pause at its end, longest loop allowed. Higher: slower animations.
SHORTEST_CLIP, LONGEST_CLIP, HOLD, MAX_SECONDS = 4.0, 30.0, 1.5, 600
# The data of a report are compressed above this number of characters. Higher: larger files, readable data.
MAX_PLAIN = 500_000
