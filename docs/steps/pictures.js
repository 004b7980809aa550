"use strict";
// Elements, graphs and tables as views draw them; texts are only ever text.

const NS = "http://www.w3.org/2000/svg";
const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const drawn = (tag, attributes = {}, ...children) => fill(document.createElementNS(NS, tag), attributes, children);
function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== false) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// ------------------------------------------------------------ pictures

const SPACE = 64, MARGIN = 36;

// Nodes in layers by the longest path to them: [x, y] of each.
function layeredPoints(graph) {
  const layer = [];
  for (let v = 0; v < graph.n; v++) layer.push(Math.max(-1, ...members(graph.reads[v]).map((u) => layer[u])) + 1);
  const points = [];
  for (let at = 0; layer.includes(at); at++) {
    const nodes = layer.flatMap((each, v) => (each === at ? [v] : []));
    const mean = (v) => { const reads = members(graph.reads[v]); return reads.reduce((total, u) => total + points[u][1], 0) / (reads.length || 1); };
    nodes.sort((a, b) => mean(a) - mean(b) || a - b);
    nodes.forEach((v, i) => { points[v] = [at * SPACE, (i - (nodes.length - 1) / 2) * SPACE]; });
  }
  return points;
}

const circlePoints = (n) => Array.from({ length: n }, (_, v) => {
  const angle = (2 * Math.PI * v) / n - Math.PI / 2, radius = Math.max(60, 18 * n);
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
});

// A line between two nodes; one that would pass through another node is bent.
function lineBetween([x1, y1], [x2, y2], points) {
  const passes = points.some(([x, y]) => {
    const t = ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / ((x2 - x1) ** 2 + (y2 - y1) ** 2);
    return t > 0.01 && t < 0.99 && Math.hypot(x1 + t * (x2 - x1) - x, y1 + t * (y2 - y1) - y) < 14;
  });
  const bend = passes ? 0.35 * Math.hypot(x2 - x1, y2 - y1) : 0, far = Math.hypot(x2 - x1, y2 - y1) || 1;
  return { control: [(x1 + x2) / 2 + (bend * (y2 - y1)) / far, (y1 + y2) / 2 - (bend * (x2 - x1)) / far], bent: passes };
}

// nodes: { point, name, label, kind, current }; edges: { from, to, kind }; label: what the picture is.
function network({ nodes, edges, directed = true, label }) {
  const points = nodes.map((node) => node.point), picture = drawn("g"), all = [...points];
  if (directed) picture.append(drawn("defs", {}, drawn("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, drawn("path", { d: "M0 0L8 4L0 8Z", class: "tip" }))));
  for (const { from, to, kind = "" } of edges) {
    const [a, b] = [points[from], points[to]], { control, bent } = lineBetween(a, b, points);
    const [end, begin] = [shortened(b, control), shortened(a, control)];
    if (bent) all.push([(control[0] + (a[0] + b[0]) / 2) / 2, (control[1] + (a[1] + b[1]) / 2) / 2]);
    picture.append(drawn("path", { d: `M${begin}Q${control} ${end}`, class: `edge ${kind}`, "marker-end": directed && "url(#tip)" }));
  }
  for (const { point: [x, y], name, label: below = "", kind = "", current } of nodes) {
    picture.append(drawn("circle", { cx: x, cy: y, r: current ? 13 : 11, class: `node ${kind}${current ? " current" : ""}` }));
    picture.append(drawn("text", { x, y: y - 17, class: "name" }, name), drawn("text", { x, y: y + 26, class: "amount" }, below));
  }
  return framed(picture, all, label);
}

function shortened([x, y], [cx, cy]) {
  const far = Math.hypot(cx - x, cy - y) || 1;
  return [(x + ((cx - x) * 14) / far).toFixed(1), (y + ((cy - y) * 14) / far).toFixed(1)];
}

function framed(picture, points, label) {
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const left = Math.min(...xs) - MARGIN, top = Math.min(...ys) - MARGIN;
  const width = Math.max(...xs) + MARGIN - left, height = Math.max(...ys) + MARGIN - top;
  return drawn("svg", { viewBox: `${left} ${top} ${width} ${height}`, width, height, style: `min-width: ${Math.round(0.75 * width)}px`, role: "img", "aria-label": label, class: "picture" }, picture);
}

// rows: { cells, kind }; the row of kind "now" is scrolled to.
const table = (head, rows) => make("table", {},
  make("thead", {}, make("tr", {}, ...head.map((word) => make("th", { scope: "col" }, word)))),
  make("tbody", {}, ...rows.map(({ cells, kind }) => make("tr", { class: kind }, ...cells.map((cell) => (cell instanceof Node ? cell : make("td", {}, String(cell))))))));
