"use strict";
// Recursion on a chain (chen2016, section 4.4): a part of the chain is cut, and each smaller part is treated alike.

function checkChain(graph) {
  for (let v = 0; v < graph.n; v++) {
    const wanted = v ? 1 << (v - 1) : 0;
    if (graph.reads[v] !== wanted) throw new InputError(`The recursion needs a chain such as a>b>c, and ${graph.names[v]} does not read exactly the node before it.`);
  }
}

// Up to k cuts: the first layers whose bytes from `begin` on reach each of k + 1 equal shares of the part.
function chooseCuts(bytes, begin, end, k) {
  const total = bytes.slice(begin, end).reduce((a, b) => a + b, 0), cuts = [];
  let reached = 0, share = 1;
  for (let v = begin; v < end && share <= k; v++) {
    reached += bytes[v];
    if (reached * (k + 1) < share * total) continue;
    cuts.push(v);
    if (total === 0) break;
    while (share <= k && share * total <= reached * (k + 1)) share += 1;
  }
  return cuts;
}

// Yield a frame for each call, cut, run and gradient; `runs` is the schedule: layer v is v, its gradient is ~v.
function* recursion(graph, k, depth, keepLast) {
  const stack = [], runs = [];
  const frame = (line, state = {}) => ({ line, stack: stack.map((each) => ({ ...each })), runs, done: runs.length, ...state });

  function* run(line, begin, end) {
    for (let v = begin; v < end; v++) { runs.push(v); yield frame(line, { v }); }
  }

  function* gradient(line, v) { runs.push(~v); yield frame(line, { v }); }

  // Compute the gradients of layers begin, ..., end - 1; `fresh`: these layers have just run.
  function* backward(begin, end, d, fresh) {
    const cuts = d > 0 ? chooseCuts(graph.bytes, begin, end, k) : [];
    stack.push({ begin, end, d, cuts });
    yield frame("call", { fresh });
    if (!cuts.length) {
      if (!fresh) yield* run("all", begin, end);
      for (let v = end - 1; v >= begin; v--) yield* gradient("gradients", v);
    } else {
      yield frame("cut");
      const last = cuts.at(-1) + 1;
      if (!fresh) yield* run("sweep", begin, keepLast ? end : last);
      let right = end;
      for (const cut of [...cuts].reverse()) {
        if (cut + 1 < right) yield* backward(cut + 1, right, d - 1, keepLast && right === end);
        yield* gradient("cutGradient", cut);
        right = cut;
      }
      if (begin < right) yield* backward(begin, right, d - 1, false);
    }
    stack.pop();
    yield frame("return", { begin, end });
  }

  yield* run("first", 0, graph.n); // the forward pass
  yield* backward(0, graph.n, depth, true);
  return { runs, live: lifetimes(graph, runs) };
}

// The layers and the gradients that are live at each run: each until its last read before it runs again.
function lifetimes(graph, runs) {
  const made = new Map(), last = runs.map(() => 0), n = graph.n;
  runs.forEach((each, step) => {
    const v = each < 0 ? ~each : each;
    const reads = each >= 0 ? [v - 1] : v === n - 1 ? [v] : [v, v + 1, ~(v + 1)];
    for (const read of reads) if (made.has(read)) last[made.get(read)] = step;
    made.set(each, step);
    last[step] = step;
  });
  last[made.get(~0)] = runs.length - 1; // the output
  return runs.map((_, now) => runs.flatMap((each, step) => (step <= now && now <= last[step] ? [{ each, step }] : [])));
}

const liveBytes = (graph, live) => live.reduce((total, { each }) => total + graph.bytes[each < 0 ? ~each : each], 0);
