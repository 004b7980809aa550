"use strict";
// An elimination order by a greedy rule, and the tree of its bags (kumar2019, section 2.2).

// The pairs of neighbours of v that are not joined.
function missingPairs(neighbours, v) {
  const around = members(neighbours[v]), pairs = [];
  for (const [i, a] of around.entries()) for (const b of around.slice(i + 1)) if (!has(neighbours[a], b)) pairs.push([a, b]);
  return pairs;
}

// The vertex with the minimum score, by `rule` its fill or its degree; ties: the smaller degree, then the smaller id.
function chooseVertex(scores, rule) {
  const first = (a, b) => a[rule] - b[rule] || a.degree - b.degree || a.v - b.v;
  return [...scores].sort(first)[0].v;
}

function* eliminate(graph, rule) {
  // Directions are ignored: a node is a neighbour of what it reads and of its readers.
  const neighbours = graph.reads.map((reads, v) => reads | graph.readers[v]);
  const order = [], bags = [], filled = [], parents = [];
  let left = graph.all;
  const frame = (line, state = {}) => ({
    line, left, neighbours: [...neighbours], order: [...order], bags: [...bags], filled: [...filled], parents: [...parents], ...state,
  });
  while (left) {
    const scores = members(left).map((v) => ({ v, degree: members(neighbours[v]).length, fill: missingPairs(neighbours, v).length }));
    yield frame("score", { scores });
    const v = chooseVertex(scores, rule);
    yield frame("choose", { scores, v });
    for (const [a, b] of missingPairs(neighbours, v)) {
      neighbours[a] |= 1 << b;
      neighbours[b] |= 1 << a;
      filled.push([a, b]);
      yield frame("join", { v, pair: [a, b] });
    }
    order.push(v);
    bags.push(neighbours[v] | (1 << v));
    yield frame("bag", { v });
    left &= ~(1 << v);
    for (const u of members(neighbours[v])) neighbours[u] &= ~(1 << v);
    neighbours[v] = 0;
  }
  // The vertex of a bag is in no later bag, so the others of the bag must meet in its parent: the next of them to go.
  const root = bags.findIndex((bag, i) => bag === 1 << order[i]);
  for (let i = 0; i < bags.length; i++) {
    const others = order.findIndex((u, j) => j > i && has(bags[i], u));
    parents.push(others >= 0 ? others : i === root ? -1 : root);
    yield frame("parent", { bag: i });
  }
  const width = Math.max(...bags.map((bag) => members(bag).length)) - 1;
  yield frame("width", { width });
  return { order, bags: bags.map(members), fill: filled.length, parents, width };
}
