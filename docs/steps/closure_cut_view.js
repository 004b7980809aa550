"use strict";

const nodeNames = (graph, set) => members(set).map((v) => graph.names[v]).join(", ") || "nothing";
const priced = ([p, q]) => (q === 1 ? `${p}` : `${p}/${q}`);
const cutName = (graph, frame, cut) => `the minimum cut keeps ${nodeNames(graph, cut.live)} live, ${frame.net.forced} + ${cut.bytes} B with F, and recomputes ${nodeNames(graph, cut.again)}, overhead ${cut.cost}`;
const vertexLabel = (graph, vertex) => String(vertex).replace(/\d+/, (v) => graph.names[v]);

const view = {
  program: [
    ["forced", "F ← bytes that v reads and makes", (graph, frame) => `When ${graph.names[frame.v]} runs first, its reads and its own value are live (${nodeNames(graph, frame.net.forcedSet)}): F = ${frame.net.forced} B${frame.room < 0 ? `, more than the limit of ${frame.limit} B: no schedule fits` : `, which leaves ${frame.room} B of the limit of ${frame.limit} B`}.`],
    ["augment", "to find a minimum cut: push flow along augmenting paths", (graph, frame) => `At price ${priced(frame.price)} the path ${pathName(graph, frame)} takes ${scaled(frame.amount, frame)} more; the flow is ${scaled(frame.value, frame)}.`],
    ["cheapest", "left ← minimum cut at price 0: all is live", (graph, frame) => `At price 0 a live byte costs nothing: ${cutName(graph, frame, frame.cut)}.`],
    ["fewest", "fewest ← minimum cut at a very high price", (graph, frame) => `Even the cut with the fewest bytes has ${frame.net.forced + frame.cut.bytes} B live, more than the limit of ${frame.limit} B: no schedule fits.`],
    ["while", "while left has more than B − F bytes:", () => ""],
    ["right", "  right ← fewest", () => ""],
    ["meet", "  cut ← minimum cut at the price where the lines of left and right meet", (graph, frame) => `Left and right meet at price ${priced(frame.price)}. ${frame.lower ? `A cut is below that point, and becomes right: there ${cutName(graph, frame, frame.cut)}` : "No cut is below that point, so the minimum cut changes there"}.`],
    ["lower", "  while cut is below that point: right ← cut, and again", () => ""],
    ["change", "  at this price the minimum cut changes: left ← right", (graph, frame) => `From price ${priced(frame.price)} on ${cutName(graph, frame, frame.cut)}.`],
    ["bound", "return the height of the last change, rounded up to a sum of costs", (graph, frame) => `The bound is greatest at price ${priced(frame.price)}: ${Number(frame.exact.toFixed(3))}. Every schedule within ${frame.limit} B has an overhead of at least ${frame.overhead}.`],
  ],
  legend: [["current", "v"], ["line", "forced"], ["kept", "live by choice"], ["again", "recomputed"], ["", "not live"]],
  panels: [
    { name: "graph at the first run of v: bytes/cost", draw: drawMoment },
    { name: "lines of the cuts: bound by price of a byte", draw: drawLines },
    { name: "arcs of the network: flow of capacity", draw: drawArcs },
  ],
  start: (graph, { node, limit }) => {
    let v = graph.names.indexOf(node);
    if (v < 0 && node === "best") {
      const bounds = graph.names.map((_, u) => record(priceSweep(graph, u, limit)).result.overhead ?? Infinity);
      v = bounds.indexOf(Math.max(...bounds));
    }
    if (v < 0) throw new InputError(`No node is named “${node}”; v is a node of the graph, or best.`);
    return priceSweep(graph, v, limit);
  },
  prepare: (graph, frames, result) => { // one scale for all steps
    const [p, q] = result.price ?? [1, 1], reaches = 1.6 * (p / q || 1);
    frames.forEach((frame) => Object.assign(frame, { reaches, top: result.overhead ?? 1 }));
  },
};

const scaled = (amount, frame) => Number((amount / frame.price[1]).toFixed(3));
const pathName = (graph, frame) => {
  const names = ["source"];
  for (const place of frame.path) { const { from, to } = frame.links[place].arc; names.push(from === names.at(-1) ? to : from); }
  return names.map((vertex) => vertexLabel(graph, vertex)).join(" → ");
};

function drawMoment(graph, frame) {
  const cut = frame.cut ?? frame.cuts.at(-1), points = layeredPoints(graph);
  const kind = (v) => {
    if (has(frame.net.forcedSet, v)) return "line";
    if (cut && has(cut.again, v)) return "again";
    return cut && has(cut.live, v) ? "kept" : "";
  };
  return network({
    nodes: points.map((point, v) => ({ point, name: graph.names[v], label: `${graph.bytes[v]}/${graph.cost[v]}`, kind: kind(v), current: v === frame.v })),
    edges: graph.edges.map(([from, to]) => ({ from, to })),
    label: "the graph; the status line names the nodes that are live and recomputed",
  });
}

// The lines of the cuts so far over the price of a byte, and their minimum, which is the bound.
function drawLines(graph, frame) {
  const picture = drawn("g"), wide = 380, tall = 190, shown = [...frame.cuts], price = frame.price && frame.price[0] / frame.price[1];
  if (frame.line === "meet") shown.push(frame.right, ...(frame.lower ? [frame.cut] : []));
  const lines = shown.filter((cut, i) => shown.findIndex((other) => other.bytes === cut.bytes && other.cost === cut.cost) === i);
  const high = Math.max(1, frame.top * 1.25), low = -0.35 * high;
  const x = (at) => (wide * at) / frame.reaches, y = (value) => tall * (1 - (value - low) / (high - low));
  const height = (cut, at) => cut.cost + at * (cut.bytes - frame.room), lowest = (at) => Math.min(...lines.map((cut) => height(cut, at)));
  const curve = (value, kind) => {
    const inside = Array.from({ length: 481 }, (_, i) => (frame.reaches * i) / 480).filter((at) => value(at) >= low && value(at) <= high);
    if (inside.length) picture.append(drawn("path", { d: `M${inside.map((at) => [x(at).toFixed(1), y(value(at)).toFixed(1)]).join("L")}`, class: `edge ${kind}` }));
  };
  picture.append(drawn("path", { d: `M0 ${y(0)}H${wide}M0 0V${tall}`, class: "edge" }));
  picture.append(drawn("text", { x: -6, y: y(0) + 4, class: "end amount" }, "0"), drawn("text", { x: -6, y: y(frame.top) + 4, class: "end amount" }, String(frame.top)));
  picture.append(drawn("text", { x: wide, y: tall + 18, class: "end amount" }, `price of a byte, up to ${Number(frame.reaches.toFixed(2))}`));
  for (const cut of lines) curve((at) => height(cut, at), cut === frame.cut ? "now" : "");
  if (lines.length) curve(lowest, "envelope");
  if (price !== undefined && price <= frame.reaches && lines.length) {
    const inside = lowest(price) >= low;
    picture.append(drawn("path", { d: `M${x(price)} 0V${tall}`, class: "edge faint" }));
    if (inside) picture.append(drawn("circle", { cx: x(price), cy: y(lowest(price)), r: 5, class: "node current" }));
  }
  return framed(picture, [[0, 0], [wide, tall]], `the bound over the price of a byte: the minimum of the lines of ${lines.length} cuts`);
}

function drawArcs(graph, frame) {
  if (!frame.links && !frame.cut) return make("p", { class: "hint" }, "no cut yet");
  const links = frame.links ?? frame.cut.links, price = frame.links ? frame.price : frame.cut.price;
  const amount = (flow) => (flow === Infinity ? "∞" : Number((flow / price[1]).toFixed(3)));
  const rows = links.map(({ arc, capacity, flow }, place) => ({
    kind: frame.path?.includes(place) ? "now" : "",
    cells: [vertexLabel(graph, arc.from), vertexLabel(graph, arc.to), arc.bytes ? `${arc.bytes} B × ${priced(price)}` : arc.cost === Infinity ? "∞" : `cost ${arc.cost}`, `${amount(flow)} of ${amount(capacity)}`],
  }));
  const words = links.some(({ arc }) => `${arc.from} ${arc.to}`.includes(" not ")) ? "u: u runs after the first run of v; “u not before”: u has not run before it" : "u: u runs after the first run of v";
  return make("div", {}, make("p", { class: "hint" }, `On the source's side of the cut: ${words}.`), table(["from", "to", "capacity", "flow"], rows));
}
