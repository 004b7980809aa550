"use strict";

const vertexName = (graph, v) => graph.names[v];
const scoreOf = (frame) => frame.scores.find(({ v }) => v === frame.v);
const bagName = (graph, frame, i) => setName(graph, frame.bags[i]);

const view = {
  program: [
    ["while", "while a vertex is left", () => ""],
    ["score", "  for each vertex: its degree, and its fill, the pairs of neighbours that are not joined", (graph, frame) => `${frame.scores.length} ${frame.scores.length === 1 ? "vertex is" : "vertices are"} left; the table has the degree and the fill of each.`],
    ["choose", "  v ← the vertex with the minimum", (graph, frame) => `${vertexName(graph, frame.v)} is next: degree ${scoreOf(frame).degree}, fill ${scoreOf(frame).fill}. Ties go to the smaller degree, then to the smaller id.`],
    ["join", "  join each pair of its neighbours", (graph, frame) => `${frame.pair.map((u) => vertexName(graph, u)).join(" and ")} are neighbours of ${vertexName(graph, frame.v)}: an edge joins them.`],
    ["bag", "  bag ← v and its neighbours; remove v", (graph, frame) => `The bag of ${vertexName(graph, frame.v)} is ${bagName(graph, frame, frame.bags.length - 1)}; ${vertexName(graph, frame.v)} leaves the graph.`],
    ["parent", "for each bag: its parent is the bag of its next vertex in the order", (graph, frame) => {
      const parent = frame.parents[frame.bag];
      return parent < 0 ? `The bag of ${vertexName(graph, frame.order[frame.bag])} has no other vertex: it is the root.` : `The parent of ${bagName(graph, frame, frame.bag)} is ${bagName(graph, frame, parent)}, the bag of ${vertexName(graph, frame.order[parent])}.`;
    }],
    ["width", "return the tree; its width is the size of the largest bag minus 1", (graph, frame) => `The tree decomposition has width ${frame.width}; ${frame.filled.length} ${frame.filled.length === 1 ? "edge was" : "edges were"} added.`],
  ],
  legend: [["current", "v"], ["span", "its neighbours"], ["filled", "added edge"], ["line", "removed"]],
  panels: [
    { name: "graph without directions", draw: drawVertices },
    { name: "vertices left", draw: drawScores },
    { name: "bags and their tree", draw: drawBags },
  ],
  start: (graph, { rule }) => eliminate(graph, rule),
  prepare: (graph, frames, result) => { frames.forEach((frame) => { frame.places = treePlaces(result); }); },
};

function drawVertices(graph, frame) {
  const points = circlePoints(graph.n), gone = (v) => !has(frame.left, v);
  const around = frame.v === undefined ? 0 : graph.all & (frame.line === "bag" ? frame.bags.at(-1) & ~(1 << frame.v) : frame.neighbours[frame.v]);
  const added = frame.filled.map(([from, to]) => ({ from, to, kind: gone(from) || gone(to) ? "faint" : "again" }));
  const edges = graph.edges.map(([from, to]) => ({ from, to, kind: gone(from) || gone(to) ? "faint" : "" }));
  return network({
    nodes: points.map((point, v) => ({ point, name: graph.names[v], kind: gone(v) ? "line" : has(around, v) ? "span" : "", current: v === frame.v })),
    edges: [...edges, ...added],
    directed: false,
    label: "the graph that is left; the table and the status line name its vertices",
  });
}

function drawScores(graph, frame) {
  const scores = frame.scores ?? members(frame.left).map((v) => ({ v, degree: members(frame.neighbours[v]).length, fill: missingPairs(frame.neighbours, v).length }));
  if (!scores.length) return make("p", { class: "hint" }, "no vertex is left");
  return table(["vertex", "degree", "fill", "neighbours"], scores.map(({ v, degree, fill }) => ({
    kind: v === frame.v ? "now" : "",
    cells: [graph.names[v], degree, fill, members(frame.neighbours[v]).map((u) => graph.names[u]).join(" ")],
  })));
}

// The place of each bag: its level below the root, and its column, that of its first child.
function treePlaces({ bags, parents }) {
  const children = bags.map((_, i) => parents.flatMap((parent, j) => (parent === i ? [j] : []))), places = [];
  let column = 0;
  const place = (i, level) => {
    children[i].forEach((child) => place(child, level + 1));
    const x = children[i].length ? children[i].reduce((total, child) => total + places[child][0], 0) / children[i].length : column++;
    places[i] = [x, level];
  };
  place(parents.indexOf(-1), 0);
  return places;
}

function drawBags(graph, frame) {
  const longest = Math.max(...frame.places.map((_, i) => (frame.bags[i] ? setName(graph, frame.bags[i]).length : 0)), 8);
  const wide = 7.5 * longest + 8, picture = drawn("g"), points = frame.places.map(([x, level]) => [x * (wide + 14), level * 58]);
  frame.parents.forEach((parent, i) => {
    if (parent >= 0) picture.append(drawn("path", { d: `M${points[i]}L${points[parent]}`, class: `edge ${i === frame.bag ? "now" : ""}` }));
  });
  frame.bags.forEach((bag, i) => {
    const [x, y] = points[i], current = i === frame.bag || (frame.line === "bag" && i === frame.bags.length - 1);
    picture.append(drawn("rect", { x: x - wide / 2, y: y - 14, width: wide, height: 28, rx: 6, class: `node ${current ? "current" : ""}` }));
    picture.append(drawn("text", { x, y: y + 4 }, setName(graph, bag)));
  });
  const corners = points.flatMap(([x, y]) => [[x - wide / 2, y], [x + wide / 2, y]]);
  return framed(picture, corners, `bags: ${frame.bags.map((bag) => setName(graph, bag)).join(", ") || "none yet"}`);
}
