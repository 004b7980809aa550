"""Sizes of pictures, and limits on what they draw, each with what it trades."""

# Points of letters in boxes and bars, in legends, and of the names of buffers. Higher: legible, less fits.
FONT, LEGEND_FONT, NAME_POINTS = 8, 9, 7
# Width of a letter in font sizes, slightly above the average of DejaVu Sans. Higher: text surely fits, shorter names.
LETTER = 0.62
# Inches of a row of a legend, a level of a lattice, and a cell of a schedule. Higher: legible, larger pictures.
LEGEND_ROW, LEVEL, CELL = 0.19, 0.42, 0.24
# Inches around the text of a box, of its lines, and of the narrowest picture, for its title. Higher: larger pictures.
PAD, LINE_HIGH, TITLE_WIDE = 0.07, 0.135, 3.6
# Letters of a line in a box, at least. Higher: wider boxes, longer names.
MIN_LETTERS = 20
# Columns of the narrowest picture in characters, left of its rows, and of a step. Higher: legible, less fits.
MIN_WIDTH, GUTTER, MAX_WIDE = 40, 10, 4
# Columns of a curve of memory, rows or columns of a schedule: about the pixels. Higher: finer, larger files.
MAX_COLUMNS, MAX_CELLS = 2_000, 600
# Budget, in peaks, above which it is named but not drawn. Higher: curves are drawn smaller.
MAX_PEAKS = 2.5
# Percent of the best within which a solver counts, and ticks of the axis above it. Higher: differences are hidden.
WITHIN, TICKS = 1, (0, 0.1, 1, 10, 100, 1_000, 10_000)

# ---- drawings of graphs, in widths of a node
# A bend, the gap between the parts, the most that gradients of one node share. Higher: clearer, wider.
BEND, APART, WIDEST_LABEL = 0.4, 1.5, 4
# Bends of all edges. Higher: fewer edges cross nodes, more time.
MAX_BENDS = 20_000
# Sweeps that place items; sweeps that reduce crossings, and visits of lines in these. Higher: clearer, more time.
SWEEPS, ORDERINGS, MAX_LAYOUT_WORK = 6, 40, 10_000_000

# ---- the largest pictures
# Nodes of a graph as boxes, and as dots; bags; lower sets. Higher: more is drawn, more slowly, less of it legible.
MAX_BOXES, MAX_DOTS, MAX_BAGS, MAX_DRAWN_SETS = 150, 50_000, 200, 500
# Nodes and edges of a graph in a notebook. Higher: larger graphs are drawn, megabytes of output.
MAX_DRAWN, MAX_EDGES = 400, 1_000
# Buffers with outlines, which hide areas, and with names. Higher: more details, less legible.
MAX_OUTLINED, MAX_NAMED_BUFFERS = 2_000, 400
# Nodes and steps of reports and animations. Higher: larger plans, slow pages.
MAX_DRAWN_NODES, MAX_DRAWN_STEPS = 10_000, 10_000
# Nodes with names in an animation: always, and where there is room; steps with captions. Higher: larger files.
ALWAYS_NAMED, MAX_NAMES, MAX_CAPTIONS = 12, 25, 400
# Seconds of the shortest and longest loop by default, of the pause at its end, and of any loop. Higher: slower clips.
SHORTEST_CLIP, LONGEST_CLIP, HOLD, MAX_SECONDS = 4.0, 30.0, 1.5, 600
# Characters of a report's data that is not compressed. Higher: larger files, readable data.
MAX_PLAIN = 500_000
