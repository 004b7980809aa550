"use strict";
// Best-first search over sets of live values: the cheapest of all schedules within a limit.

// The nodes that must still run: missing outputs, and what is missing for them.
function neededNodes(graph, live) {
  let needed = 0;
  for (let v = graph.n - 1; v >= 0; v--) {
    const wanted = graph.readers[v] === 0 || (graph.readers[v] & needed) !== 0;
    if (wanted && !has(live, v)) needed |= 1 << v;
  }
  return needed;
}

// The live values on which a missing output depends; outputs stay.
function useful(graph, live) {
  let missing = 0; // nodes from which a path leads to a missing output
  for (let v = graph.n - 1; v >= 0; v--) {
    if (graph.readers[v] === 0 ? !has(live, v) : graph.readers[v] & missing) missing |= 1 << v;
  }
  return members(live).reduce((set, x) => (graph.readers[x] === 0 || has(missing, x) ? set | (1 << x) : set), 0);
}

// The moves from a set. A run of a needed node costs nothing beyond one pass, any other run its compute; freeing a value
// costs the nodes that it makes needed again. Values are freed only where a node that could run does not fit.
function moves(graph, live, limit) {
  const needed = neededNodes(graph, live), room = limit - sum(graph.bytes, live), choices = [];
  let fits = true;
  for (const v of members(graph.all & ~live)) {
    const set = useful(graph, live | (1 << v));
    if (!contains(live, graph.reads[v]) || !has(set, v)) continue;
    if (graph.bytes[v] <= room) choices.push({ kind: "run", node: v, cost: has(needed, v) ? 0 : graph.cost[v], set });
    else fits = false;
  }
  if (fits) return choices;
  for (const x of members(live)) {
    if (graph.readers[x] === 0) continue; // outputs stay live
    const set = live & ~(1 << x), cost = sum(graph.cost, neededNodes(graph, set) & ~needed);
    choices.push({ kind: "free", node: x, cost, set });
  }
  return choices;
}

// Uniform-cost search: take the set with the minimum overhead, the latest of equal ones.
function* liveSetSearch(graph, limit) {
  const outputs = graph.readers.reduce((set, readers, v) => (readers ? set : set | (1 << v)), 0);
  const best = new Map([[0, { overhead: 0, from: null, move: null, number: 0 }]]); // of each set in the queue or visited
  const queue = [{ set: 0, overhead: 0 }], visited = new Set();
  const frame = (line, state = {}) => ({
    line, limit, queue: queue.slice(-12).reverse(), waiting: queue.length, visited: visited.size, sets: best.size, ...state,
  });
  const links = []; // all moves to a new or cheaper set
  yield frame("start", { set: 0, overhead: 0, links, made: 0 });
  while (queue.length) {
    const { set, overhead } = queue.pop();
    if (visited.has(set) || overhead > best.get(set).overhead) continue;
    visited.add(set);
    yield frame("take", { set, overhead, links, made: links.length });
    if (contains(set, outputs)) {
      yield frame("done", { set, overhead, links, made: links.length, path: pathTo(best, set) });
      return { overhead, order: pathTo(best, set).filter(({ kind }) => kind === "run").map(({ node }) => node), visited: visited.size };
    }
    for (const move of moves(graph, set, limit)) {
      const total = overhead + move.cost, before = best.get(move.set);
      const better = !before || total < before.overhead;
      if (better) {
        best.set(move.set, { overhead: total, from: set, move, number: before ? before.number : best.size });
        links.push({ from: set, to: move.set, move, overhead: total });
        insert(queue, { set: move.set, overhead: total });
      }
      yield frame(move.kind, { set, overhead, move, total, better, links, made: links.length });
    }
  }
  yield frame("none", { set: 0, overhead: 0, links, made: links.length });
  return { overhead: null, order: [], visited: visited.size };
}

// Keep the queue sorted from the highest to the lowest overhead, new entries last among equal ones.
function insert(queue, entry) {
  let place = queue.length;
  while (place > 0 && queue[place - 1].overhead < entry.overhead) place -= 1;
  queue.splice(place, 0, entry);
}

function pathTo(best, set) {
  const path = [];
  for (let at = best.get(set); at.move; at = best.get(at.from)) path.unshift(at.move);
  return path;
}
