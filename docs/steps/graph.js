"use strict";
// Graphs that a reader types, and sets of their nodes as bit masks: bit v is node v.

class InputError extends Error {} // its message is one sentence for the reader

const MOST_STEPS = 5000;
const has = (set, v) => (set >> v) & 1;
const contains = (set, part) => (part & ~set) === 0;
const members = (set) => { const nodes = []; for (let v = 0; set >> v; v++) if (has(set, v)) nodes.push(v); return nodes; };
const union = (nodes, sets) => nodes.reduce((all, v) => all | sets[v], 0);
const sum = (amounts, set) => members(set).reduce((total, v) => total + amounts[v], 0);

// A graph from edges u>v and nodes u=BYTES/COST, separated by spaces; nodes are numbered in topological order.
function readGraph(text, maxNodes) {
  const named = new Map(), edges = [];
  const node = (name) => {
    if (!/^[\p{L}\p{N}_]{1,8}$/u.test(name)) throw new InputError(`“${name}” is not a node name; use up to eight letters, digits or underscores.`);
    if (!named.has(name)) named.set(name, { name, bytes: 1, cost: 1, sized: false, reads: new Set() });
    return named.get(name);
  };
  for (const word of text.split(/[\s,;]+/).filter(Boolean)) {
    if (word.includes(">")) {
      const row = word.split(">").map(node);
      for (let i = 1; i < row.length; i++) row[i].reads.add(row[i - 1]);
    } else {
      const parts = /^([^=]+)(?:=(\d{1,4})(?:\/(\d{1,4}))?)?$/.exec(word);
      if (!parts) throw new InputError(`“${word}” is neither an edge such as a>b nor a node such as a=4/2, with 4 bytes and cost 2.`);
      const each = node(parts[1]);
      if (parts[2] === undefined) continue;
      if (each.sized) throw new InputError(`The node ${each.name} has two sizes; give one.`);
      Object.assign(each, { sized: true, bytes: Number(parts[2]), cost: Number(parts[3] ?? 1) });
    }
  }
  if (!named.size) throw new InputError("The graph is empty; write edges such as a>b b>c.");
  if (named.size > maxNodes) throw new InputError(`The graph has ${named.size} nodes; this page takes up to ${maxNodes}.`);
  const ordered = topological([...named.values()]);
  ordered.forEach((each, v) => { each.id = v; for (const u of each.reads) edges.push([u.id, v]); });
  const n = ordered.length, reads = new Array(n).fill(0), readers = new Array(n).fill(0);
  for (const [u, v] of edges) { reads[v] |= 1 << u; readers[u] |= 1 << v; }
  return { n, all: (1 << n) - 1, names: ordered.map((each) => each.name), bytes: ordered.map((each) => each.bytes), cost: ordered.map((each) => each.cost), edges, reads, readers };
}

// Nodes in the order of the text, each after what it reads.
function topological(nodes) {
  const ordered = [], waiting = [...nodes];
  while (waiting.length) {
    const ready = waiting.findIndex((each) => [...each.reads].every((u) => ordered.includes(u)));
    if (ready < 0) throw new InputError(`The edges ${cycle(waiting)} are a cycle; no node can run first.`);
    ordered.push(...waiting.splice(ready, 1));
  }
  return ordered;
}

function cycle(waiting) {
  const path = [waiting[0]];
  for (;;) {
    const next = [...path[0].reads].find((u) => waiting.includes(u)), place = path.indexOf(next);
    path.unshift(next);
    if (place >= 0) return path.slice(0, place + 2).map((each) => each.name).join(">");
  }
}

// The frames that an algorithm yields, and its result.
function record(algorithm) {
  const frames = [];
  for (;;) {
    const { value, done } = algorithm.next();
    if (done) return { frames, result: value };
    if (frames.push(value) > MOST_STEPS) throw new InputError(`The algorithm takes more than ${MOST_STEPS} steps here; give a smaller graph.`);
  }
}

const setName = (graph, set) => (set ? `{${members(set).map((v) => graph.names[v]).join(" ")}}` : "∅");
