"use strict";
// The page around an algorithm: controls, pseudo code, status line, panels and an input of one's own. The view of the
// algorithm is the object `view`: program, legend, panels, and start(graph, options).

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  let frames = [], graph, result, now = 0, playing = false, spoken = 0, begun = 0, first = 0, waiting = 0;

  const previous = make("button", { type: "button", "aria-label": "one step back" }, "◀");
  const play = make("button", { type: "button", id: "play" }, "Play");
  const next = make("button", { type: "button", "aria-label": "one step on" }, "▶");
  const scrub = make("input", { type: "range", id: "scrub", min: 0, value: 0, "aria-label": "step" });
  const field = make("input", { type: "number", id: "step", min: 0, value: 0, "aria-label": "number of the step" });
  const speed = make("select", { id: "speed", "aria-label": "steps in a second" });
  for (const rate of [1, 2, 4, 12, 30]) speed.append(make("option", { value: rate }, `${rate} steps/s`.replace(/^1 steps/, "1 step")));
  speed.value = matchMedia("(prefers-reduced-motion: reduce)").matches ? "1" : "2";
  const bar = make("div", { id: "bar", role: "group", "aria-label": "steps" }, previous, play, next, scrub, field, speed);
  const help = make("p", { id: "help" }, "Steps count from 0. Arrow keys: one step; space: play; in this bar Page Up and Page Down: a tenth of the steps, Home and End: the ends.");
  const status = make("p", { class: "status", role: "status" });

  const lines = new Map();
  const program = make("ol", { class: "program" });
  for (const [name, text] of view.program) {
    const depth = text.search(/\S/);
    const line = make("li", { style: `--depth: ${depth / 2}` }, text.trim());
    lines.set(name, line);
    program.append(line);
  }
  const legend = make("ul", { class: "legend" }, ...view.legend.map(([kind, word]) => make("li", {}, make("i", { class: `swatch ${kind}`, "aria-hidden": "true" }), word)));
  const panels = view.panels.map(({ name, draw }) => {
    const head = make("h2", {}, name), box = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name });
    return { draw, box, section: make("section", { "aria-label": name }, head, box) };
  });
  panels[0].section.append(legend);
  const code = make("section", { "aria-label": "pseudo code" }, make("h2", {}, "pseudo code"), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "lines of the pseudo code" }, program));
  const grid = make("div", { id: "plans" }, code, ...panels.map(({ section }) => section));

  // ------------------------------------------------------------ input

  const examples = make("select", { id: "example" });
  data.examples.forEach(({ name }, i) => examples.append(make("option", { value: i }, name)));
  const text = make("textarea", { id: "graph", rows: 4, spellcheck: "false", "aria-describedby": "hint" });
  const options = data.options.map(({ name, label, choices }) => {
    const input = choices ? make("select", { id: name }) : make("input", { id: name, size: 6, autocomplete: "off" });
    for (const choice of choices ?? []) input.append(make("option", { value: choice }, choice));
    return { name, label, input };
  });
  const fault = make("p", { id: "fault", role: "alert" });
  const hint = make("p", { id: "hint", class: "hint" }, data.hint);
  const labelled = (word, input) => make("label", {}, make("span", {}, word), input);
  const form = make("form", { "aria-label": "input" }, labelled("example", examples), labelled("graph", text), hint,
    ...options.map(({ label, input }) => labelled(label, input)), make("button", { type: "submit" }, "Run"), fault);
  const input = make("section", { id: "input", "aria-label": "your own graph" }, make("h2", {}, "your own graph"), form);
  document.body.append(make("main", {}, make("h1", {}, document.title), make("p", { class: "lead" }, data.lead), make("div", { class: "top" }, bar, status), grid, input, help));

  function load(i) {
    text.value = data.examples[i].graph;
    for (const { name, input } of options) input.value = data.examples[i].options[name];
  }

  function run() {
    try {
      const typed = readGraph(text.value, data.nodes);
      const values = Object.fromEntries(options.map(({ name, label, input }) => [name, input.tagName === "SELECT" || name === "node" ? input.value.trim() : whole(label, input.value)]));
      const recorded = record(view.start(typed, values));
      now = 0;
      [graph, frames, result] = [typed, recorded.frames, recorded.result];
      view.prepare?.(graph, frames, result);
      fault.textContent = "";
      scrub.max = field.max = frames.length - 1;
      stop();
      go(0);
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      fault.textContent = error.message;
    }
  }

  function whole(label, value) {
    if (!/^\d{1,6}$/.test(value.trim())) throw new InputError(`${label} is “${value}”; give a whole number, 0 or more.`);
    return Number(value);
  }

  // ------------------------------------------------------------ steps

  function go(step) {
    now = Math.max(0, Math.min(frames.length - 1, Math.round(step) || 0));
    scrub.value = field.value = now;
    scrub.setAttribute("aria-valuetext", `step ${now}`);
    const frame = frames[now];
    for (const [name, line] of lines) {
      line.classList.toggle("now", name === frame.line);
      if (name === frame.line) line.setAttribute("aria-current", "step"); else line.removeAttribute("aria-current");
    }
    for (const { draw, box } of panels) {
      box.replaceChildren(draw(graph, frame, now));
      show(box, box.querySelector("tr.now, svg .current, svg .now"));
    }
    show(program.parentElement, lines.get(frame.line));
    const moment = performance.now();
    if (!playing || moment - spoken > 250) { spoken = moment; speak(); }
  }

  function show(box, part) { // without scrolling the page
    if (!part) return;
    const [outer, inner] = [box.getBoundingClientRect(), part.getBoundingClientRect()];
    if (inner.top < outer.top + 24 || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - outer.height / 2;
    if (inner.left < outer.left || inner.right > outer.right) box.scrollLeft += inner.left - outer.left - outer.width / 2;
  }

  function speak() {
    const frame = frames[now], [, , sentence] = view.program.find(([name]) => name === frame.line);
    status.textContent = `Step ${now} of ${frames.length - 1}: ${sentence(graph, frame)}`;
    clearTimeout(waiting); // browsers limit how often an address may change, and some frames have none
    if (!playing) waiting = setTimeout(() => { try { history.replaceState(null, "", `#step=${now}`); } catch { /* no address to keep */ } }, 300);
  }

  function tick(moment) {
    if (!playing) return;
    const step = first + Math.floor((moment - begun) / 1000 * Number(speed.value));
    if (step > now) go(step);
    if (now >= frames.length - 1) return stop();
    requestAnimationFrame(tick);
  }
  function start() {
    if (now >= frames.length - 1) go(0);
    playing = true; begun = performance.now(); first = now; play.textContent = "Pause";
    requestAnimationFrame(tick);
  }
  function stop() { playing = false; play.textContent = "Play"; if (frames.length) speak(); }

  play.addEventListener("click", () => (playing ? stop() : start()));
  previous.addEventListener("click", () => { stop(); go(now - 1); });
  next.addEventListener("click", () => { stop(); go(now + 1); });
  speed.addEventListener("change", () => { begun = performance.now(); first = now; });
  for (const each of [scrub, field]) each.addEventListener("input", () => { if (each.value !== "") { if (playing) stop(); go(Number(each.value)); } });
  examples.addEventListener("change", () => { load(Number(examples.value)); run(); });
  form.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input:not([type=range]), select, textarea")) return;
    const scrolls = event.target.matches(".scroll"); // it has these keys itself
    const tenth = Math.max(1, Math.round(frames.length / 10));
    const far = bar.contains(event.target) ? { PageDown: tenth, PageUp: -tenth, Home: -frames.length, End: frames.length } : {};
    const by = scrolls ? undefined : { ArrowRight: 1, ArrowLeft: -1, ...far }[event.key];
    if (by !== undefined) { event.preventDefault(); if (playing) stop(); go(now + by); }
    if (event.key === " " && !scrolls && !event.target.matches("button")) { event.preventDefault(); play.click(); }
  });

  load(0);
  run();
  const wanted = new URLSearchParams(location.hash.slice(1)).get("step");
  if (wanted) go(Number(wanted));
  window.steps = { go, start, stop, get step() { return now; }, get frames() { return frames; }, get graph() { return graph; }, get result() { return result; } }; // for tests
})();
