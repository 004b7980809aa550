"use strict";

const lowerSet = (graph, frame, row) => setName(graph, frame.family[row]);
const transitionName = (graph, frame) => `From L = ${lowerSet(graph, frame, frame.i)} to L′ = ${lowerSet(graph, frame, frame.j)}`;
const entryName = (graph, frame, entry, row) => `opt[${lowerSet(graph, frame, row)}, ${entry.t}] = ${entry.m} B`;

const view = {
  program: [
    ["start", "opt[∅, 0] ← 0", (graph, frame) => `There are ${frame.family.length} lower sets. The empty chain has no overhead and keeps nothing.`],
    ["set", "for each lower set L, by size", () => ""],
    ["entry", "  for each t with an entry m = opt[L, t]", (graph, frame) => `The next entry is ${entryName(graph, frame, frame.entry, frame.i)}.`],
    ["next", "    for each lower set L′ that contains L", () => ""],
    ["need", "      V′ ← L′ \\ L", () => ""],
    ["terms", "      bytes ← m + 2 M(V′) + M(δ⁺(L′) \\ L′) + M(δ⁻(δ⁺(L′)) \\ L′)", () => ""],
    ["exceeds", "      if bytes > B: try the next L′", (graph, frame) => `${transitionName(graph, frame)} the block has ${frame.step.terms.join(" + ")} = ${frame.need} B, more than the budget of ${frame.budget} B.`],
    ["costs", "      t′ ← t + T(V′ \\ ∂(L′)),  m′ ← m + M(∂(L′) \\ L)", () => ""],
    ["worse", "      if opt[L′, t′] ≤ m′: try the next L′", (graph, frame) => `${transitionName(graph, frame)} the block fits (${frame.need} B), and the chain keeps ${frame.step.m} B at overhead ${frame.step.t}; the table already has ${frame.before.m} B there.`],
    ["store", "      opt[L′, t′] ← m′", (graph, frame) => `${transitionName(graph, frame)} the block has ${frame.step.terms.join(" + ")} = ${frame.need} B and fits; the chain keeps ${frame.step.m} B at overhead ${frame.step.t}${frame.before ? ` instead of ${frame.before.m} B` : ""}.`],
    ["back", "follow the entries back from the smallest t of V", (graph, frame) => `The chain of the minimum overhead ${frame.overhead} contains ${lowerSet(graph, frame, frame.chain[0])}.`],
    ["answer", "return the smallest t of V, and its chain", (graph, frame) => (frame.overhead === null
      ? `No chain of lower sets fits within ${frame.budget} B.`
      : `The minimum overhead within ${frame.budget} B is ${frame.overhead}, by the chain ${frame.chain.map((row) => lowerSet(graph, frame, row)).join(" ⊂ ")}.`)],
  ],
  legend: [["kept", "boundary of L′: kept"], ["again", "rest of the block: recomputed"], ["span", "rest of L"], ["grad", "reads the block or L from outside: term (iii)"], ["loaded", "co-input: term (iv); a ring if it is in both"], ["", "outside"]],
  panels: [
    { name: "graph: bytes/cost of each node", draw: drawLowerSet },
    { name: "opt[L, t]: bytes kept", draw: drawTable },
    { name: "all lower sets: a line upwards adds one node", draw: drawLattice },
  ],
  start: (graph, { budget }) => exactProgram(graph, budget),
};

function drawLowerSet(graph, frame) {
  const set = frame.i === undefined ? 0 : frame.family[frame.i], step = frame.step;
  const chain = (frame.chain ?? []).reduce((kept, row) => kept | surroundings(graph, frame.family[row]).boundary, 0);
  const kind = (v) => {
    if (frame.chain) return has(chain, v) ? "kept" : "again";
    if (!step) return has(set, v) ? "span" : "";
    if (has(step.boundary, v)) return "kept";
    if (has(step.block, v)) return "again";
    return has(set, v) ? "span" : has(step.readers & step.coInputs, v) ? "grad ring" : has(step.readers, v) ? "grad" : has(step.coInputs, v) ? "loaded" : "";
  };
  const points = layeredPoints(graph);
  return network({
    nodes: points.map((point, v) => ({ point, name: graph.names[v], label: `${graph.bytes[v]}/${graph.cost[v]}`, kind: kind(v) })),
    edges: graph.edges.map(([from, to]) => ({ from, to })),
    label: "the graph; the status line and the table name the sets",
  });
}

function drawTable(graph, frame) {
  const times = [...new Set(frame.log.map(({ t }) => t))].sort((a, b) => a - b), cells = new Map();
  for (const { row, t, m } of frame.log.slice(0, frame.filled)) cells.set(`${row} ${t}`, m);
  const stored = frame.line === "store" ? frame.log[frame.filled - 1] : null;
  const rows = frame.family.map((set, row) => {
    const kind = row === (frame.j ?? frame.i) ? "now" : row < frame.i ? "done" : "";
    const current = (t) => (stored ? row === frame.j && t === stored.t : frame.entry && row === frame.i && t === frame.entry.t);
    return { kind, cells: [setName(graph, set), ...times.map((t) => make("td", { class: current(t) && "now" }, String(cells.get(`${row} ${t}`) ?? "")))] };
  });
  return table(["L", ...times.map((t) => `t = ${t}`)], rows);
}

function drawLattice(graph, frame) {
  const level = frame.family.map((set) => members(set).length), picture = drawn("g");
  const point = (row) => {
    const peers = level.flatMap((each, i) => (each === level[row] ? [i] : []));
    return [(peers.indexOf(row) - (peers.length - 1) / 2) * 40, -44 * level[row]];
  };
  frame.family.forEach((set, i) => frame.family.forEach((other, j) => {
    if (level[j] === level[i] + 1 && contains(other, set)) picture.append(drawn("path", { d: `M${point(i)}L${point(j)}`, class: "edge faint" }));
  }));
  const line = (i, j, kind) => picture.append(drawn("path", { d: `M${point(i)}L${point(j)}`, class: `edge ${kind}` }));
  if (frame.j !== undefined) line(frame.i, frame.j, frame.line === "exceeds" ? "again" : "now");
  (frame.chain ?? []).forEach((row, k, chain) => { if (k) line(chain[k - 1], row, "now"); });
  const filled = new Set(frame.log.slice(0, frame.filled).map(({ row }) => row));
  frame.family.forEach((set, row) => {
    const [x, y] = point(row), current = row === frame.j || row === frame.i || frame.chain?.includes(row);
    picture.append(drawn("circle", { cx: x, cy: y, r: 9, class: `node ${filled.has(row) ? "span" : ""} ${current ? "current" : ""}` }));
  });
  return framed(picture, frame.family.map((_, row) => point(row)), "all lower sets in levels by size; the table lists them");
}
