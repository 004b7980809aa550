"use strict";

const layers = (graph, begin, end) => (end - begin === 1 ? graph.names[begin] : `${graph.names[begin]} … ${graph.names[end - 1]}`);
const part = (graph, frame) => { const { begin, end } = frame.stack.at(-1); return layers(graph, begin, end); };
const ran = (graph, frame) => `Layer ${graph.names[frame.v]} runs`;
const differentiated = (graph, frame) => `The gradient of ${graph.names[frame.v]} is computed`;

const view = {
  program: [
    ["first", "run all layers: the forward pass", (graph, frame) => `${ran(graph, frame)} for the first time${memory(frame)}.`],
    ["begin", "backward(part of the chain, levels d):", () => ""],
    ["call", "  push the part on the stack", (graph, frame) => `backward is called for ${part(graph, frame)}, with ${frame.stack.at(-1).d} ${frame.stack.at(-1).d === 1 ? "level" : "levels"} left${frame.fresh ? "; these layers have just run" : ""}.`],
    ["leaf", "  if d = 0 or the part cannot be cut:", () => ""],
    ["all", "    run its layers, unless they have just run", (graph, frame) => `${ran(graph, frame)} again: the part is not cut further, so all its values stay live for their gradients${memory(frame)}.`],
    ["gradients", "    compute their gradients, from last to first", (graph, frame) => `${differentiated(graph, frame)}${memory(frame)}.`],
    ["cut", "  else: cut it at up to k layers, into parts of equal bytes", (graph, frame) => `The part ${part(graph, frame)} is cut at ${frame.stack.at(-1).cuts.map((v) => graph.names[v]).join(", ")}.`],
    ["sweep", "    run its layers, unless they have just run; keep the cuts", (graph, frame) => `${ran(graph, frame)} again${frame.stack.at(-1).cuts.includes(frame.v) ? ", and is kept as a cut" : ""}${memory(frame)}.`],
    ["sub", "    for each smaller part, from last to first:", () => ""],
    ["recurse", "      backward(smaller part, d − 1)", () => ""],
    ["cutGradient", "      compute the gradient of the cut before it", (graph, frame) => `The gradient of the cut ${graph.names[frame.v]} is computed${memory(frame)}.`],
    ["return", "  pop the part from the stack", (graph, frame) => `The ${frame.end - frame.begin === 1 ? "gradient" : "gradients"} of ${layers(graph, frame.begin, frame.end)} ${frame.end - frame.begin === 1 ? "is" : "are"} complete; ${frame.stack.length ? `calls left on the stack: ${frame.stack.length}` : "the stack is empty"}.`],
  ],
  legend: [["kept", "live, first run"], ["again", "live, recomputed"], ["grad", "live gradient"], ["", "not live"], ["current", "runs now"]],
  panels: [
    { name: "chain, its gradients, and the stack below", draw: drawStack },
    { name: "stack, the latest call first", draw: drawCalls },
    { name: "bytes live at each run", draw: drawTrace },
  ],
  start: (graph, { k, depth, last }) => {
    checkChain(graph);
    if (k < 1) throw new InputError("There must be at least one cut in a part; give a k from 1 on.");
    return recursion(graph, k, depth, last === "yes");
  },
  prepare: (graph, frames, result) => {
    const bytes = result.live.map((live) => liveBytes(graph, live));
    frames.forEach((frame) => Object.assign(frame, { live: result.live[frame.done - 1], bytes, now: bytes[frame.done - 1] }));
  },
};

function memory(frame) {
  return `; ${frame.now} B are live${frame.now === Math.max(...frame.bytes) ? ", the peak" : ""}`;
}

function drawStack(graph, frame) {
  const wide = 36, picture = drawn("g"), first = new Map(), deepest = Math.max(frame.stack.length, 1);
  frame.runs.forEach((each, step) => { if (!first.has(each)) first.set(each, step); });
  const runs = ["first", "all", "sweep", "gradients", "cutGradient"].includes(frame.line);
  for (let v = 0; v < graph.n; v++) {
    for (const [y, each, kind] of [[0, v, "kept"], [44, ~v, "grad"]]) {
      const live = frame.live.find((instance) => instance.each === each), current = runs && frame.runs[frame.done - 1] === each;
      const colour = !live ? "" : kind === "grad" ? "grad" : live.step === first.get(each) ? "kept" : "again";
      picture.append(drawn("rect", { x: v * wide - 13, y: y - 13, width: 26, height: 26, rx: 4, class: `node ${colour} ${current ? "current" : ""}` }));
    }
    picture.append(drawn("text", { x: v * wide, y: -22 }, graph.names[v]));
  }
  frame.stack.forEach(({ begin, end, cuts }, level) => {
    const y = 84 + level * 24;
    picture.append(drawn("rect", { x: begin * wide - 18, y: y - 8, width: (end - begin) * wide - 4, height: 16, rx: 4, class: `node span ${level === frame.stack.length - 1 ? "current" : ""}` }));
    for (const cut of cuts) picture.append(drawn("rect", { x: cut * wide - 6, y: y - 8, width: 12, height: 16, class: `node ${frame.live.some(({ each }) => each === cut) ? "kept" : ""}` }));
  });
  const points = [[-10, 0], [(graph.n - 1) * wide + 10, 44], [0, 72 + 24 * Math.max(deepest, 5)]];
  return framed(picture, points, "chain above, gradients below it, then a bar for each call on the stack with its cuts; the table lists the calls");
}

function drawCalls(graph, frame) {
  const rows = frame.stack.map(({ begin, end, d, cuts }) => ({ cells: [layers(graph, begin, end), d, cuts.map((v) => graph.names[v]).join(", ") || "none"] })).reverse();
  if (rows.length) rows[0].kind = "now";
  return table(["layers", "levels left", "cuts"], rows);
}

function drawTrace(graph, frame) {
  const picture = drawn("g"), most = Math.max(...frame.bytes), tall = 150, wide = Math.max(4, Math.min(14, 520 / frame.bytes.length));
  frame.bytes.forEach((bytes, step) => {
    const height = (tall * bytes) / most, x = step * wide;
    picture.append(drawn("rect", { x, y: tall - height, width: wide - 1, height, class: step === frame.done - 1 ? "bar now" : step < frame.done ? "bar kept" : "bar line" }));
  });
  picture.append(drawn("text", { x: 0, y: -8, class: "begin" }, `peak ${most} B, ${frame.bytes.length} runs`), drawn("text", { x: 0, y: tall + 16, class: "begin amount" }, "run 0"), drawn("text", { x: frame.bytes.length * wide, y: tall + 16, class: "end amount" }, `run ${frame.bytes.length - 1}`));
  return framed(picture, [[0, 0], [Math.max(160, frame.bytes.length * wide), tall]], `bytes live at each run, up to ${most}`);
}
