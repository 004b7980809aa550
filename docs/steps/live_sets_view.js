"use strict";

const liveName = (graph, set) => setName(graph, set);
const after = (graph, frame) => `${liveName(graph, frame.move.set)} at overhead ${frame.total}${frame.better ? "" : ", no less than before"}`;

const view = {
  program: [
    ["start", "queue ← the empty set, overhead 0", (graph, frame) => `No value is live, and nothing has run; the limit is ${frame.limit} B.`],
    ["take", "take the set with the minimum overhead from the queue, the latest of equal ones", (graph, frame) => `Taken: ${liveName(graph, frame.set)} with ${sum(graph.bytes, frame.set)} B and overhead ${frame.overhead}; needed: ${liveName(graph, neededNodes(graph, frame.set))}.`],
    ["done", "if it has all outputs: return the path to it", (graph, frame) => `All outputs are live, and no set in the queue has less overhead. The optimum is ${frame.overhead}: ${frame.path.map((move) => `${move.kind === "free" ? "free " : ""}${graph.names[move.node]}`).join(", ")}.`],
    ["each", "for each node whose reads are live, and on which a missing output depends:", () => ""],
    ["run", "  if it fits: run it, at its cost, or at no cost if it is needed; drop values on which no missing output depends", (graph, frame) => `${graph.names[frame.move.node]} fits, and ${has(neededNodes(graph, frame.set), frame.move.node) ? "is needed" : `is not needed, so its run costs ${frame.move.cost}`}. The run leads to ${after(graph, frame)}.`],
    ["unless", "if one of them does not fit, for each live value except outputs:", () => ""],
    ["free", "  free it; the overhead grows by the nodes that it makes needed again", (graph, frame) => `A node that could run does not fit. Freeing ${graph.names[frame.move.node]} costs ${frame.move.cost} and leads to ${after(graph, frame)}.`],
    ["put", "put each new or cheaper set into the queue", () => ""],
    ["none", "if the queue is empty: no schedule fits the limit", (graph, frame) => `The queue is empty: no schedule fits within ${frame.limit} B.`],
  ],
  legend: [["kept", "live"], ["span", "needed: must still run"], ["", "not needed"], ["current", "the node of the move"]],
  panels: [
    { name: "graph: bytes/cost of each node", draw: drawLive },
    { name: "queue: the next sets", draw: drawQueue },
    { name: "sets: dark ones taken, light ones in the queue; dashed: a value is freed", draw: drawSearch },
  ],
  start: (graph, { limit }) => liveSetSearch(graph, limit),
  prepare: (graph, frames) => {
    const places = setPlaces(frames.at(-1).links);
    let taken = new Set();
    frames.forEach((frame) => {
      if (frame.line === "take") taken = new Set(taken).add(frame.set);
      Object.assign(frame, { places, taken });
    });
  },
};

function drawLive(graph, frame) {
  const set = frame.move ? frame.move.set : frame.set, needed = neededNodes(graph, set);
  return network({
    nodes: layeredPoints(graph).map((point, v) => ({
      point, name: graph.names[v], label: `${graph.bytes[v]}/${graph.cost[v]}`, kind: has(set, v) ? "kept" : has(needed, v) ? "span" : "", current: frame.move?.node === v,
    })),
    edges: graph.edges.map(([from, to]) => ({ from, to })),
    label: "the graph; the status line names the live values",
  });
}

function drawQueue(graph, frame) {
  const rows = frame.queue.map(({ set, overhead }) => ({ kind: frame.better && set === frame.move.set ? "now" : "", cells: [overhead, liveName(graph, set), `${sum(graph.bytes, set)} B`] }));
  if (frame.waiting > rows.length) rows.push({ cells: ["", `and ${frame.waiting - rows.length} more`, ""] });
  return table(["overhead", "live set", "bytes"], rows);
}

// The place of each set: the number of moves on the first path to it, then the order of these paths.
function setPlaces(links) {
  const places = new Map([[0, [0, 0]]]), rows = [1];
  for (const { from, to } of links) {
    if (places.has(to)) continue;
    const column = places.get(from)[0] + 1;
    rows[column] ??= 0;
    places.set(to, [column, rows[column]++]);
  }
  return places;
}

function drawSearch(graph, frame) {
  const picture = drawn("g"), point = (set) => { const [column, row] = frame.places.get(set); return [column * 46, row * 26]; };
  const shown = frame.links.slice(0, frame.made), current = frame.move ? frame.move.set : frame.set;
  for (const { from, to, move } of shown) picture.append(drawn("path", { d: `M${point(from)}L${point(to)}`, class: `edge ${from === frame.set && to === frame.move?.set ? "now" : move.kind === "free" ? "again" : ""}` }));
  if (frame.path) {
    let at = 0;
    for (const { set } of frame.path) { picture.append(drawn("path", { d: `M${point(at)}L${point(set)}`, class: "edge now" })); at = set; }
  }
  for (const set of new Set([0, ...shown.map(({ to }) => to)])) {
    const [x, y] = point(set);
    picture.append(drawn("circle", { cx: x, cy: y, r: 7, class: `node ${frame.taken.has(set) ? "kept" : "span"} ${set === current ? "current" : ""}` }));
  }
  const places = [...frame.places.keys()].map(point);
  return framed(picture, places, `${frame.sets} sets, ${frame.visited} taken; free moves are dashed`);
}
