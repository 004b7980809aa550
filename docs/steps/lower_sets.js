"use strict";
// The exact program of kusumoto2019, section 4.2: the best chain of lower sets within a budget.

const MOST_SETS = 64;

// All lower sets, small ones first: each contains what its members read.
function lowerSets(graph) {
  const sets = [0];
  for (let i = 0; i < sets.length; i++) {
    for (let v = 0; v < graph.n; v++) {
      const larger = sets[i] | (1 << v);
      if (contains(sets[i], graph.reads[v]) && !sets.includes(larger)) sets.push(larger);
    }
    if (sets.length > MOST_SETS) throw new InputError(`The graph has more than ${MOST_SETS} lower sets; this page takes up to ${MOST_SETS}.`);
  }
  return sets;
}

// ∂(L), δ⁺(L) \ L and δ⁻(δ⁺(L)) \ L: the boundary, the readers outside, and what else these read outside.
function surroundings(graph, set) {
  const readers = union(members(set), graph.readers) & ~set;
  return {
    boundary: union(members(graph.all & ~set), graph.reads) & set,
    readers,
    coInputs: union(members(readers), graph.reads) & ~set,
  };
}

// The step of a chain from L to L′: the bytes of its block, and the next triplet (L′, t′, m′).
function transition(graph, set, next, t, m) {
  const block = next & ~set, { boundary, readers, coInputs } = surroundings(graph, next);
  return {
    block, boundary, readers, coInputs,
    terms: [m, 2 * sum(graph.bytes, block), sum(graph.bytes, readers), sum(graph.bytes, coInputs)],
    t: t + sum(graph.cost, block & ~boundary),
    m: m + sum(graph.bytes, boundary & ~set),
  };
}

// Fill opt[L, t], the minimum bytes m that a chain up to L with overhead t keeps. Entries are only ever added to the
// log; the last one of a cell (L, t) counts.
function* exactProgram(graph, budget) {
  const family = lowerSets(graph), opt = family.map(() => new Map()), log = [];
  const store = (row, entry) => { opt[row].set(entry.t, entry); log.push({ row, ...entry }); };
  const frame = (line, state = {}) => ({ line, family, log, filled: log.length, budget, ...state });
  store(0, { t: 0, m: 0, from: null });
  yield frame("start");
  for (let i = 0; i < family.length; i++) {
    for (const entry of [...opt[i].values()].sort((a, b) => a.t - b.t)) {
      yield frame("entry", { i, entry });
      for (let j = i + 1; j < family.length; j++) {
        if (!contains(family[j], family[i])) continue;
        const step = transition(graph, family[i], family[j], entry.t, entry.m);
        const need = step.terms.reduce((a, b) => a + b), before = opt[j].get(step.t);
        const state = { i, j, entry, step, need, before };
        if (need > budget) yield frame("exceeds", state);
        else if (before && before.m <= step.m) yield frame("worse", state);
        else {
          store(j, { t: step.t, m: step.m, from: { row: i, t: entry.t } });
          yield frame("store", state);
        }
      }
    }
  }
  const last = family.length - 1, overhead = Math.min(...opt[last].keys());
  if (overhead === Infinity) {
    yield frame("answer", { overhead: null, chain: [] });
    return { overhead: null, chain: [], sets: family };
  }
  const chain = []; // from V back to the empty set
  for (let at = { row: last, t: overhead }; at && at.row > 0; at = opt[at.row].get(at.t).from) {
    chain.unshift(at.row);
    yield frame("back", { overhead, chain: [...chain] });
  }
  yield frame("answer", { overhead, chain });
  return { overhead, chain: chain.map((row) => family[row]), sets: family };
}
