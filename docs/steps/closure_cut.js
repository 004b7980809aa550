"use strict";
// The closure bound: at the first run of a node v, live bytes have a price, and a minimum cut chooses what is live.

function reach(set, next) { // all nodes that `next` leads to
  let reached = union(members(set), next);
  for (let more = reached; more; ) { more = union(members(reached), next) & ~reached; reached |= more; }
  return reached;
}

// The network of the first run of v. On the source's side: "u" runs after the step, "u not before" has not run before
// it. An arc has bytes, which the price multiplies, or a cost.
function momentNetwork(graph, v) {
  const before = reach(1 << v, graph.reads), after = reach(1 << v, graph.readers);
  const free = graph.all & ~before & ~after & ~(1 << v), forced = graph.reads[v] | (1 << v);
  const later = union(members(after), graph.reads) & ~after & ~forced;
  const outputs = free & graph.readers.reduce((set, readers, u) => (readers ? set : set | (1 << u)), 0);
  const arcs = [];
  const arc = (from, to, amounts) => arcs.push({ from, to, bytes: 0, cost: 0, ...amounts });
  const again = reach(later | outputs, graph.reads) | later | outputs; // nodes that may run after the step
  for (const u of members(again & ~forced)) {
    const { bytes, cost } = { bytes: graph.bytes[u], cost: graph.cost[u] };
    if (has(later, u)) arc("source", u, { bytes, live: u });
    if (has(free, u)) {
      arc(u, `${u} not before`, { cost, again: u });
      arc(`${u} not before`, u, { cost: Infinity });
      if (has(outputs, u)) arc("source", `${u} not before`, { bytes, live: u });
      for (const w of members(graph.readers[u] & free)) arc(`${u} not before`, `${w} not before`, { cost: Infinity });
    } else arc(u, "sink", { cost, again: u });
    if (has(later, u)) continue;
    // u must be live, or run after the step, if one of its readers does.
    arc(`read ${u}`, u, { bytes, live: u });
    for (const w of members(graph.readers[u] & again & ~forced)) arc(w, `read ${u}`, { cost: Infinity });
  }
  return { arcs, forced: sum(graph.bytes, forced), forcedSet: forced, before, after, free };
}

// A minimum cut by augmenting paths, at the price p / q of a byte; capacities are whole multiples of 1 / q.
function* minimumCut(arcs, [p, q], frame) {
  const links = arcs.map((arc) => ({ arc, capacity: arc.bytes * p + (arc.cost ? arc.cost * q : 0), flow: 0 }));
  let value = 0;
  for (;;) {
    const reached = new Map([["source", null]]), queue = ["source"]; // the link to each vertex
    for (const at of queue) {
      for (const link of links) {
        const { from, to } = link.arc;
        if (from === at && !reached.has(to) && link.flow < link.capacity) { reached.set(to, [link, 1]); queue.push(to); }
        if (to === at && !reached.has(from) && link.flow > 0) { reached.set(from, [link, -1]); queue.push(from); }
      }
    }
    if (!reached.has("sink")) {
      const across = links.filter(({ arc }) => reached.has(arc.from) && !reached.has(arc.to)).map(({ arc }) => arc);
      const total = (amount) => across.reduce((sum, arc) => sum + arc[amount], 0);
      const set = (kind) => across.reduce((nodes, arc) => (arc[kind] === undefined ? nodes : nodes | (1 << arc[kind])), 0);
      return { bytes: total("bytes"), cost: total("cost"), live: set("live"), again: set("again"), links, price: [p, q] };
    }
    const path = [];
    for (let at = "sink"; reached.get(at); ) { const [link, way] = reached.get(at); path.unshift([link, way]); at = way > 0 ? link.arc.from : link.arc.to; }
    const amount = Math.min(...path.map(([link, way]) => (way > 0 ? link.capacity - link.flow : link.flow)));
    for (const [link, way] of path) link.flow += way * amount;
    value += amount;
    yield frame("augment", { links: links.map((link) => ({ ...link })), path: path.map(([link]) => links.indexOf(link)), amount, value, price: [p, q] });
  }
}

const divisor = (a, b) => (b ? divisor(b, a % b) : a);
const fraction = (p, q) => [p / divisor(p, q), q / divisor(p, q)];

// Sweep the price from 0 up to where the bound is greatest. The line of a cut: cost + price * (bytes - room).
function* priceSweep(graph, v, limit) {
  const net = momentNetwork(graph, v), room = limit - net.forced, cuts = [];
  const frame = (line, state = {}) => ({ line, v, limit, room, net, cuts: [...cuts], ...state });
  const worth = (cut, [p, q]) => cut.cost * q + p * (cut.bytes - room); // in multiples of 1 / q
  yield frame("forced");
  if (room < 0) return { overhead: null, forced: net.forced };
  const most = graph.cost.reduce((a, b) => a + b, 1);
  let left = yield* minimumCut(net.arcs, [0, 1], frame);
  cuts.push(left);
  yield frame("cheapest", { cut: left, price: [0, 1] });
  const fewest = yield* minimumCut(net.arcs, [most, 1], frame);
  if (fewest.bytes > room) { yield frame("fewest", { cut: fewest, price: [most, 1] }); return { overhead: null, forced: net.forced + fewest.bytes }; }
  let price = [0, 1];
  while (left.bytes > room) {
    let right = fewest;
    for (;;) {
      price = fraction(right.cost - left.cost, left.bytes - right.bytes);
      const cut = yield* minimumCut(net.arcs, price, frame);
      const lower = worth(cut, price) < worth(left, price);
      yield frame("meet", { left, right, cut, lower, price });
      if (!lower) break;
      right = cut;
    }
    cuts.push(right);
    yield frame("change", { left, right, cut: right, price });
    left = right;
  }
  // An overhead is a sum of costs: round up to a multiple of their greatest common divisor.
  const step = Math.max(1, graph.cost.reduce((a, b) => divisor(a, b), 0)), exact = worth(left, price);
  const overhead = Math.ceil(exact / (price[1] * step)) * step;
  yield frame("bound", { cut: left, price, exact: exact / price[1], overhead });
  return { overhead, price, cuts: cuts.map(({ bytes, cost, live, again }) => ({ bytes, cost, live: members(live), again: members(again) })) };
}
