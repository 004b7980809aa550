"use strict";
(async () => {
  const written = document.getElementById("data");
  if (written.type === "application/zlib" && !("DecompressionStream" in window)) {
    document.body.append("This page is compressed. Open it in a browser of 2023 or later.");
    return;
  }
  const data = JSON.parse(written.type === "application/zlib" ? await unpacked(written.textContent) : written.textContent);
  const { graph, layout, texts } = data;
  const n = graph.names.length;
  // `names` has long names shortened; search and links need them whole.
  graph.full = graph.names.map((name, v) => graph.long[v] ?? name);
  const plans = data.plans.filter((plan) => plan.order.length);
  // A tick of the common clock is a step of every plan, or of one while the other waits.
  const ticks = Math.max(1, data.clock[0].length);
  const ROLES = ["first run", "recomputed", "gradient", "loaded"];
  const NODES = [["kept", "first run, live"], ["again", "recomputed"], ["loaded", "loaded from the host"], ["grad", "gradient"], ["paper", "not live"], ["now", "runs now"]];
  const CELLS = [["kept", "first run"], ["again", "recomputed"], ["loaded", "loaded"], ["span", "live"]];
  // States of a node besides its role: without a live value; not drawn yet.
  const NONE = ROLES.length, HIDDEN = -1;
  const NS = "http://www.w3.org/2000/svg";
  let now = 0, chosen = -1, playing = false, spoken = 0;

  // ------------------------------------------------------------ elements

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const drawn = (tag, attributes) => {
    const element = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  let colours = {};
  const readColours = () => {
    for (const name of ["paper", "ink", "soft", "line", "edge", "kept", "again", "loaded", "grad", "span", "now"]) colours[name] = colour(name);
  };

  const previous = make("button", { type: "button", "aria-label": "one step back" }, "◀");
  const play = make("button", { type: "button", id: "play" }, "Play");
  const next = make("button", { type: "button", "aria-label": "one step forward" }, "▶");
  const scrub = make("input", { type: "range", id: "scrub", min: 0, max: ticks - 1, value: 0, "aria-label": "step" });
  const field = make("input", { type: "number", id: "step", min: 0, max: (plans[0]?.order.length ?? 1) - 1, value: 0, "aria-label": "step of the first plan" });
  const speed = make("select", { id: "speed", "aria-label": "steps per second" });
  for (const rate of [1, 4, 12, 30, 60, 240]) speed.append(make("option", { value: rate }, `${rate} steps/s`));
  speed.value = ticks > 400 ? "60" : ticks > 60 ? "12" : "4";
  const names = make("datalist", { id: "names" });
  const finder = make("input", { id: "node", list: "names", placeholder: "find a node", "aria-label": "name of a node" });
  finder.addEventListener("focus", () => names.append(...graph.full.map((name) => make("option", { value: name }))), { once: true });
  const zoom = [make("button", { type: "button", "aria-label": "shrink the graphs" }, "−"), make("button", { type: "button", "aria-label": "enlarge the graphs" }, "+")];
  const title = make("h1", {}, document.title);
  const bar = make("div", { id: "bar", role: "group", "aria-label": "steps" }, previous, play, next, scrub, field, speed, finder, ...zoom);
  const grid = make("div", { id: "plans" });
  const about = make("div", { id: "about", role: "region", tabindex: 0, "aria-label": "selected node" });
  // Screen readers announce nodes that are clicked or typed, not each one under the pointer.
  const announced = make("p", { id: "announced", role: "status" });
  const help = make("p", { id: "help" }, "Steps count from 0. Both plans advance together: equal runs coincide, and a plan waits while the other one does more. Arrow keys: one step; space: play; in this bar, Page Up and Page Down: a tenth of the steps, Home and End: first and last step. Click a curve or a schedule to go to a step. Point at a node or a cell, or type a name, to see why a node is kept or recomputed; Escape closes this.");
  document.body.append(make("main", {}, title, bar, help, grid, announced), about);

  // ------------------------------------------------------------ graph

  const xs = [], ys = [];
  // Layers from left to right.
  for (let v = 0; v < n; v++) { xs.push(layout.points[2 * v + 1]); ys.push(layout.points[2 * v]); }
  const most = (all, least = -Infinity) => all.reduce((a, b) => Math.max(a, b), least);
  const spans = (all) => [-most(all.map((each) => -each)), most(all)];
  const flat = (pieces, at) => pieces.filter((_, i) => i % 2 === at);
  const [left, right] = spans([...xs, 0]);
  const [top, bottom] = spans([...ys, ...flat(layout.inside, 0), 0]);
  // Names of the outer nodes need room.
  const margin = n <= 25 ? 40 : 20;
  // Smallest distance of layers, so that names do not overlap; units are hundredths of a node.
  const apart = n <= 25 ? 0.065 * Math.min(14, most(graph.names.map((name) => name.length), 0)) : 0;
  let scale = 1;

  function sizeOf(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
  }

  class View {
    constructor(plan, place) {
      Object.assign(this, { plan, place, m: plan.order.length, live: new Set(), at: -1, from: [], until: [] });
      this.steps = data.clock[place];
      this.tick = new Int32Array(this.m);
      for (let t = ticks - 1; t >= 0; t--) if (this.steps[t] >= 0) this.tick[this.steps[t]] = t;
      this.again = new Set(plan.again);
      this.instances = Array.from({ length: n }, () => []);
      for (let s = 0; s <= this.m; s++) { this.from.push([]); this.until.push([]); }
      plan.value.forEach((x, i) => {
        this.from[plan.made[i]].push(i); this.until[plan.end[i]].push(i);
        this.instances[graph.producer[x]].push(i);
      });
      this.runs = Array.from({ length: n }, () => []);
      plan.order.forEach((v, s) => this.runs[v].push(s));
      this.build();
      this.jump(0);
    }

    build() {
      const { plan } = this;
      const facts = make("dl");
      for (const [word, text] of plan.facts) facts.append(make("dt", {}, word), make("dd", {}, text));
      this.status = make("p", { class: "status" });
      if (!this.place) this.status.setAttribute("role", "status");
      this.graph = make("canvas", { role: "img", "aria-label": `graph of ${plan.title}; the table of live values has the same data` });
      this.matrix = make("canvas", { role: "img", "aria-label": `schedule of ${plan.title}: steps down, nodes across` });
      this.cursor = make("i", { class: "cursor", "aria-hidden": "true" });
      this.other = plans[1 - this.place];
      this.curve = this.drawCurve();
      this.hint = make("p", { class: "hint" }, "");
      const lines = make("ul", { class: "legend" });
      const line = (name, text) => lines.append(make("li", {}, make("i", { class: `rule ${name}`, "aria-hidden": "true" }), text));
      if (this.other) line("other", `other plan: ${this.other.title}`);
      for (const name of ["limit", "floor"]) if (plan[name]) line(name, texts[plan[name][1]]);
      const peak = make("button", { type: "button", class: "peak" }, `Go to the peak, step ${plan.peak_step}`);
      peak.addEventListener("click", () => { stop(); go(this.tick[plan.peak_step]); });
      this.rows = make("tbody");
      const head = make("thead", {}, make("tr", {}, ...["value", "bytes", "made at step", "last live step", "kind"].map((word) => make("th", { scope: "col" }, word))));
      this.count = make("h3", {}, "live values");
      const region = (name, child) => make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${name}, ${plan.title}` }, child);
      const pictures = make("div");
      this.section = make("section", { "aria-label": plan.title }, make("h2", {}, plan.title), facts, this.status, pictures);
      pictures.append(make("h3", {}, "graph"), legend(NODES), region("graph", this.graph), make("h3", {}, "live memory at each step"), peak, this.plot(), this.hint, lines);
      if (plan.engines) {
        const lanes = make("ul", { class: "legend" });
        for (const [at, name] of [...plan.engines.names, "bytes on the host"].entries()) {
          lanes.append(make("li", {}, make("i", { class: `rule ${["compute", "out", "into", "host"][at]}`, "aria-hidden": "true" }), name));
        }
        this.hand = make("i", { class: "cursor", "aria-hidden": "true" });
        const times = make("div", { class: "axis across", "aria-hidden": "true" }, label(0, "left", "0"), make("span", {}, texts[plan.engines.duration]));
        pictures.append(make("h3", {}, "compute, copies and host memory over time"), make("div", { class: "plot lanes" }, make("span"), make("div", { class: "curve" }, this.drawEngines(), this.hand), times), lanes);
      }
      pictures.append(make("h3", {}, "schedule: steps down, nodes across"), legend(CELLS), region("schedule", this.matrix), this.count, region("live values", make("table", {}, head, this.rows)));
      grid.append(this.section);
      this.graph.addEventListener("pointermove", (event) => this.overGraph(event));
      this.graph.addEventListener("click", (event) => { const v = this.nodeAt(event); if (v >= 0 && this.runs[v].length) go(this.tick[this.runs[v][0]]); announce(v); });
      this.matrix.addEventListener("pointermove", (event) => choose(this.cellAt(event)[1]));
      this.matrix.addEventListener("click", (event) => { const [s, v] = this.cellAt(event); go(this.tick[s]); announce(v); });
      const over = (event) => {
        const tick = Math.max(0, Math.min(ticks - 1, this.tickAt(event)));
        const others = views.filter((view) => view !== this).map((view) => `; ${view.plan.title}: ${view.moment(tick)}`);
        this.hint.textContent = this.moment(tick) + others.join("");
        if (event.buttons || event.type === "click") go(tick);
      };
      for (const kind of ["pointermove", "pointerdown", "click"]) this.curve.addEventListener(kind, over);
      this.curve.addEventListener("pointerleave", () => { this.hint.textContent = ""; });
    }

    // -------------------------------------------------------- the curve

    plot() {
      const up = make("div", { class: "axis up", "aria-hidden": "true" }), across = make("div", { class: "axis across", "aria-hidden": "true" });
      const words = data.bytes.map(([amount, place]) => [100 - 100 * amount / data.top, texts[place]]);
      for (const [at, word] of words) up.append(label(at, "top", word));
      up.append(make("i", {}, words.reduce((a, [, b]) => (b.length > a.length ? b : a), "")));
      let apart = 1;
      for (let i = 0; this.m / apart > 6; i++) apart = [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3);
      for (let s = 0; s < this.m; s += apart) {
        const at = 100 * (this.tick[s] + 0.5) / ticks;
        if (at < 88) across.append(label(at, "left", String(s)));
      }
      across.append(make("span", {}, "step"));
      return make("div", { class: "plot" }, up, make("div", { class: "curve" }, this.curve, this.cursor), across);
    }

    stairs(plan, y) { // while a plan waits, its bytes stay
      const steps = data.clock[plans.indexOf(plan)];
      return steps.map((step, t) => `V${y(plan.trace[step] ?? 0)}H${(1000 * (t + 1) / ticks).toFixed(1)}`).join("");
    }

    moment(tick) {
      const { plan } = this, step = this.steps[tick];
      return step < 0 ? "waits for its first step" : `step ${step}: ${texts[plan.bytes[step]]}, ${graph.names[plan.order[step]]}`;
    }

    drawCurve() {
      const { plan } = this;
      const svg = drawn("svg", { viewBox: "0 0 1000 200", preserveAspectRatio: "none", role: "img", "aria-label": `memory of ${plan.title} by step` });
      const y = (amount) => (200 - 200 * amount / data.top).toFixed(1);
      svg.append(drawn("path", { d: `M0 200${this.stairs(plan, y)}V200Z`, class: "area" }));
      for (const [amount] of data.bytes.slice(1)) svg.append(drawn("line", { x1: 0, x2: 1000, y1: y(amount), y2: y(amount), class: "grid" }));
      if (this.other) svg.append(drawn("path", { d: `M0 200${this.stairs(this.other, y)}`, class: "other" }));
      for (const [name, line] of [["limit", plan.limit], ["floor", plan.floor]]) {
        if (!line) continue;
        svg.append(drawn("line", { x1: 0, x2: 1000, y1: y(line[0]), y2: y(line[0]), class: name }));
      }
      return svg;
    }

    tickAt(event) {
      const box = this.curve.getBoundingClientRect();
      return Math.floor(ticks * (event.clientX - box.left) / box.width);
    }

    // -------------------------------------------------------- engines

    drawEngines() {
      const { engines } = this.plan;
      const svg = drawn("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": `compute and copies of ${this.plan.title} over time` });
      engines.names.forEach((name, lane) => {
        let path = "";
        engines.begin[lane].forEach((begin, i) => {
          const from = 1000 * begin / engines.time, to = 1000 * engines.end[lane][i] / engines.time;
          path += `M${from.toFixed(1)} ${4 + 22 * lane}H${to.toFixed(1)}v16H${from.toFixed(1)}Z`;
        });
        svg.append(drawn("path", { d: path, class: `lane ${["compute", "out", "into"][lane]}` }));
      });
      const host = most(engines.host_trace, 1);
      let path = "";
      engines.host_trace.forEach((amount, s) => { path += `${s ? "L" : "M"}${(1000 * engines.begin[0][s] / engines.time).toFixed(1)} ${(97 - 28 * amount / host).toFixed(1)}`; });
      svg.append(drawn("path", { d: path, class: "host" }));
      return svg;
    }

    // -------------------------------------------------------- the graph

    lay() {
      const wide = Math.max(240, this.graph.parentElement.clientWidth - 2) * scale;
      const unit = Math.max(Math.min((wide - 2 * margin) / Math.max(1, right - left), 0.5), apart);
      const tall = Math.min(Math.max(bottom - top, 1) * Math.max(unit, 0.12) + 2 * margin, 900 * scale);
      this.unit = [unit, (tall - 2 * margin) / Math.max(1, bottom - top)];
      this.context = sizeOf(this.graph, Math.max((right - left) * unit + 2 * margin, 120), tall);
      this.radius = Math.max(1.5, Math.min(9, 34 * Math.min(this.unit[0], this.unit[1])));
      this.nodes = make("canvas");
      this.paint = sizeOf(this.nodes, parseFloat(this.graph.style.width), tall);
      if (views[0] && views[0] !== this && views[0].nodes.width === this.nodes.width && views[0].nodes.height === this.nodes.height) {
        this.edges = views[0].edges;
      } else {
        this.edges = make("canvas");
        this.drawEdges(sizeOf(this.edges, parseFloat(this.graph.style.width), tall));
      }
      this.paint.drawImage(this.edges, 0, 0, parseFloat(this.graph.style.width), tall);
      this.shown = new Int8Array(n).fill(HIDDEN);
      this.drawMatrix();
    }

    drawEdges(paper) {
      const [a, b] = this.unit, x = margin - left * a, y = margin - top * b;
      paper.lineWidth = 0.6; paper.strokeStyle = colours.edge;
      // The more lines, the fainter each.
      paper.globalAlpha = Math.max(0.2, Math.min(1, 16000 / (layout.inside.length + layout.across.length)));
      for (const pieces of [layout.inside, layout.across]) {
        paper.beginPath();
        for (let i = 0; i < pieces.length; i += 4) {
          paper.moveTo(x + pieces[i + 1] * a, y + pieces[i] * b);
          paper.lineTo(x + pieces[i + 3] * a, y + pieces[i + 2] * b);
        }
        paper.stroke();
      }
    }

    shape(path, v, radius) {
      const [x, y] = this.point(xs[v], ys[v]);
      if (radius < 4) return path.rect(x - radius, y - radius, 2 * radius, 2 * radius);
      path.moveTo(x + radius, y);
      path.arc(x, y, radius, 0, 7);
    }

    point(x, y) { return [margin + (x - left) * this.unit[0], margin + (y - top) * this.unit[1]]; }

    nodeAt(event) {
      const box = this.graph.getBoundingClientRect();
      let nearest = -1, least = 14 ** 2;
      for (let v = 0; v < n; v++) {
        const [x, y] = this.point(xs[v], ys[v]);
        const far = (x - event.clientX + box.left) ** 2 + (y - event.clientY + box.top) ** 2;
        if (far < least) { least = far; nearest = v; }
      }
      return nearest;
    }

    overGraph(event) { choose(this.nodeAt(event)); }

    drawGraph() {
      const { context, plan } = this;
      const fills = [colours.kept, colours.again, colours.grad, colours.loaded, colours.paper];
      const holds = new Int8Array(n).fill(NONE), changed = fills.map(() => []);
      for (const i of this.live) {
        const v = graph.producer[plan.value[i]];
        holds[v] = holds[v] === NONE ? plan.role[i] : Math.max(holds[v], plan.role[i]);
      }
      for (let v = 0; v < n; v++) if (holds[v] !== this.shown[v]) changed[holds[v]].push(v);
      this.paint.lineWidth = 1; this.paint.strokeStyle = colours.edge;
      // A step changes few nodes; the others stay drawn.
      changed.forEach((nodes, kind) => {
        if (!nodes.length) return;
        const shape = new Path2D();
        for (const v of nodes) this.shape(shape, v, this.radius);
        this.paint.fillStyle = fills[kind];
        this.paint.fill(shape); this.paint.stroke(shape);
      });
      this.shown = holds;
      const current = plan.order[this.at];
      context.clearRect(0, 0, this.graph.width, this.graph.height);
      context.drawImage(this.nodes, 0, 0, parseFloat(this.graph.style.width), parseFloat(this.graph.style.height));
      for (const [v, ink, size] of [[chosen, colours.ink, 1.2], [current, colours.now, 1.6]]) {
        // No node runs before the first step.
        if (!(v >= 0)) continue;
        const shape = new Path2D();
        this.shape(shape, v, this.radius * size + 1);
        context.fillStyle = fills[holds[v]];
        context.fill(shape);
        context.lineWidth = 3; context.strokeStyle = ink;
        context.stroke(shape);
      }
      if (n > 25) return;
      context.fillStyle = colours.ink; context.font = "11px system-ui, sans-serif"; context.textAlign = "center";
      for (let v = 0; v < n; v++) { const [x, y] = this.point(xs[v], ys[v]); context.fillText(graph.names[v].slice(0, 14), x, y - this.radius * 1.5 - 3); }
    }

    // -------------------------------------------------------- the schedule

    drawMatrix() {
      const { plan, m } = this;
      // Nodes and steps per pixel.
      const across = Math.ceil(n / 1200), down = Math.ceil(m / 1200);
      this.cells = [Math.ceil(n / across), Math.ceil(m / down)];
      const [columns, lines] = this.cells;
      const state = new Uint8Array(columns * lines);
      plan.value.forEach((x, i) => {
        const column = Math.floor(graph.producer[x] / across), last = Math.floor((plan.end[i] - 1) / down);
        for (let line = Math.floor(plan.made[i] / down); line <= last; line++) state[line * columns + column] = Math.max(state[line * columns + column], 1);
        if (plan.role[i] === 3) state[Math.floor(plan.made[i] / down) * columns + column] = 4;
      });
      plan.order.forEach((v, s) => { state[Math.floor(s / down) * columns + Math.floor(v / across)] = this.again.has(s) ? 3 : 2; });
      const inks = ["paper", "span", "kept", "again", "loaded"].map((name) => parsed(colours[name]));
      const image = new ImageData(columns, lines);
      state.forEach((kind, at) => { image.data.set(inks[kind], 4 * at); });
      this.image = make("canvas", { width: columns, height: lines });
      this.image.getContext("2d").putImageData(image, 0, 0);
      const width = Math.max(160, this.matrix.parentElement.clientWidth - 2);
      this.tall = Math.min(360, Math.max(120, Math.round(width * lines / columns)));
      this.sheet = sizeOf(this.matrix, width, this.tall);
      this.wide = width;
      const scaled = make("canvas"), paper = sizeOf(scaled, width, this.tall);
      paper.imageSmoothingEnabled = false;
      paper.drawImage(this.image, 0, 0, width, this.tall);
      this.image = scaled;
    }

    drawCursor() {
      const { sheet } = this;
      const y = this.tall * (Math.min(this.at, this.m - 1) + 0.5) / this.m;
      sheet.drawImage(this.image, 0, 0, this.wide, this.tall);
      sheet.strokeStyle = colours.now; sheet.lineWidth = 1.5;
      sheet.beginPath(); sheet.moveTo(0, y); sheet.lineTo(this.wide, y); sheet.stroke();
      if (chosen >= 0) { const x = this.wide * (chosen + 0.5) / n; sheet.strokeStyle = colours.soft; sheet.beginPath(); sheet.moveTo(x, 0); sheet.lineTo(x, this.tall); sheet.stroke(); }
    }

    cellAt(event) {
      const box = this.matrix.getBoundingClientRect();
      const part = (at, size, count) => Math.max(0, Math.min(count - 1, Math.floor(count * at / size)));
      return [part(event.clientY - box.top, box.height, this.m), part(event.clientX - box.left, box.width, n)];
    }

    // -------------------------------------------------------- steps

    jump(step) {
      const to = Math.min(step, this.m - 1);
      if (to < this.at) { this.live.clear(); this.at = -1; }
      while (this.at < to) {
        this.at += 1;
        for (const i of this.until[this.at]) this.live.delete(i);
        for (const i of this.from[this.at]) this.live.add(i);
      }
    }

    draw() {
      this.drawGraph(); this.drawCursor();
      this.cursor.style.transform = `translateX(${100 * (now + 0.5) / ticks}%)`;
      if (this.hand) this.hand.style.transform = `translateX(${100 * this.plan.engines.begin[0][Math.max(0, this.at)] / this.plan.engines.time}%)`;
    }

    speak() {
      const { plan, at } = this;
      const node = plan.order[at];
      const live = `${this.live.size} ${this.live.size === 1 ? "value" : "values"}, ${texts[plan.bytes[at]]} live`;
      const freed = this.until[at + 1].map((i) => graph.values[plan.value[i]]);
      let said = `Step ${at} of ${this.m - 1} ${this.again.has(at) ? "recomputes" : "computes"} ${graph.names[node]} (${texts[graph.costs[node]]}); ${live}`;
      const waits = at < 0 || now > this.tick[at];
      if (at < 0) said = "Waits for its first step";
      else if (waits) said = `Waits after step ${at} of ${this.m - 1}, ${graph.names[node]}; ${live}`;
      if (at === plan.peak_step) said += ", the peak";
      if (freed.length && !waits) said += `; frees ${freed.slice(0, 4).join(", ")}${freed.length > 4 ? ` and ${freed.length - 4} more` : ""}`;
      if (plan.engines && !waits) {
        const loads = plan.engines.loads.filter((_, i) => plan.engines.load_step[i] === at).map((x) => graph.values[x]);
        if (loads.length) said += `; loads ${loads.join(", ")}`;
        said += `; compute waits ${texts[plan.engines.waits[at]]}; ${texts[plan.engines.host[at]]} on the host`;
      }
      this.status.textContent = `${said}.`;
      // While it plays, the table would change too fast to read.
      if (playing) return;
      const rows = [...this.live].sort((a, b) => plan.made[a] - plan.made[b]);
      this.count.textContent = `live values: ${rows.length}`;
      this.rows.replaceChildren(...rows.slice(-200).reverse().map((i) => make("tr", {},
        ...[graph.values[plan.value[i]], texts[graph.sizes[plan.value[i]]], plan.made[i], plan.end[i] - 1, ROLES[plan.role[i]]].map((cell) => make("td", {}, String(cell))))));
      if (rows.length > 200) this.rows.append(make("tr", {}, make("td", { colspan: 5 }, `and ${rows.length - 200} older values`)));
    }
  }

  function label(at, side, word) { return make("span", { style: `${side}:${at.toFixed(2)}%` }, word); }

  function legend(entries) {
    const list = make("ul", { class: "legend" });
    for (const [name, word] of entries) {
      const role = ["kept", "again", "grad", "loaded"].indexOf(name);
      if (role > 0 && !plans.some((plan) => plan.role.includes(role))) continue;
      const box = make("i", { "aria-hidden": "true" });
      if (name === "now") box.style.border = "3px solid var(--now)"; else box.style.background = `var(--${name})`;
      list.append(make("li", {}, box, word));
    }
    return list;
  }

  function unpacked(text) {
    const letters = atob(text), bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
  }

  function parsed(text) {
    const whole = parseInt(text.slice(1), 16);
    return [whole >> 16, (whole >> 8) & 255, whole & 255, 255];
  }

  // ------------------------------------------------------------ the selected node

  function choose(v) {
    if (v === chosen || v < 0) return;
    chosen = v;
    about.classList.remove("pinned");
    const reads = [...new Set(graph.read_indices.slice(graph.read_indptr[v], graph.read_indptr[v + 1]))].map((x) => graph.values[x]);
    about.replaceChildren(make("h2", {}, graph.names[v]),
      make("p", {}, `Cost ${texts[graph.costs[v]]}; reads ${reads.length ? reads.slice(0, 12).join(", ") + (reads.length > 12 ? ` and ${reads.length - 12} more` : "") : "nothing"}.`));
    for (const view of views) {
      about.append(make("h3", {}, view.plan.title), make("pre", {}, view.plan.why[v].map((place) => texts[place]).join("\n")));
    }
    document.body.classList.add("chosen");
    remember(); draw();
  }

  function announce(v) {
    if (v < 0) return;
    choose(v);
    about.classList.add("pinned");
    announced.textContent = about.innerText;
  }

  function unchoose() {
    chosen = -1;
    about.replaceChildren(); announced.textContent = "";
    document.body.classList.remove("chosen");
    remember(); draw();
  }

  function find(name) {
    const v = graph.full.indexOf(name);
    finder.setAttribute("aria-invalid", String(v < 0 && name !== ""));
    if (v < 0 && name && views.length) views[0].status.textContent = `No node is named "${name}".`;
    announce(v);
  }

  // The text about a node must not cover the node under the pointer.
  function makeRoom(event) {
    if (about.classList.contains("pinned")) return;
    const above = event.clientY > window.innerHeight / 2;
    about.style.top = above ? `${Math.max(0, bar.getBoundingClientRect().bottom)}px` : "auto";
    about.style.bottom = above ? "auto" : "0";
  }

  function go(tick) {
    now = Math.max(0, Math.min(ticks - 1, tick));
    for (const view of views) view.jump(view.steps[now]);
    scrub.value = now; field.value = Math.max(0, views[0]?.at ?? 0);
    scrub.setAttribute("aria-valuetext", `step ${field.value}`);
    draw();
    const moment = performance.now();
    if (!playing || moment - spoken > 250) { spoken = moment; speak(); }
  }

  function speak() { for (const view of views) view.speak(); remember(); }
  function draw() { for (const view of views) view.draw(); }
  let waiting = 0;
  // Browsers limit how often an address may change, and some frames have none.
  function remember() {
    clearTimeout(waiting);
    if (!playing && views.length) waiting = setTimeout(() => {
      const [{ at, tick }, other] = views;
      const wait = other && now !== tick[Math.max(0, at)] ? `&other=${other.at}` : "";
      try {
        history.replaceState(null, "", `#step=${Math.max(0, at)}${wait}${chosen < 0 ? "" : `&node=${encodeURIComponent(graph.full[chosen])}`}`);
      } catch { /* no address to keep */ }
    }, 300);
  }

  function goToStep(step, other = null) {
    if (!views.length) return;
    const [first, second] = views;
    const tick = first.tick[Math.max(0, Math.min(first.m - 1, Math.round(step) || 0))];
    const waits = other === null ? -1 : first.steps.findIndex((at, t) => at === first.steps[tick] && second.steps[t] === Number(other));
    go(waits < 0 ? tick : waits);
  }

  function follow() {
    const link = new URLSearchParams(location.hash.slice(1));
    goToStep(Number(link.get("step")), link.get("other"));
    if (link.get("node")) find(link.get("node"));
  }

  // ------------------------------------------------------------ playing

  let begun = 0, first = 0;
  function frame(moment) {
    if (!playing) return;
    const tick = first + Math.floor((moment - begun) / 1000 * Number(speed.value));
    if (tick > now) go(tick);
    if (now >= ticks - 1) return stop();
    requestAnimationFrame(frame);
  }
  function start() {
    if (now >= ticks - 1) go(0);
    playing = true; begun = performance.now(); first = now; play.textContent = "Pause";
    requestAnimationFrame(frame);
  }
  function stop() { playing = false; play.textContent = "Play"; speak(); }

  play.addEventListener("click", () => (playing ? stop() : start()));
  previous.addEventListener("click", () => { stop(); go(now - 1); });
  next.addEventListener("click", () => { stop(); go(now + 1); });
  speed.addEventListener("change", () => { begun = performance.now(); first = now; });
  for (const [input, to] of [[scrub, go], [field, goToStep]]) {
    input.addEventListener("input", () => { if (input.value !== "") { if (playing) stop(); to(Number(input.value)); } });
  }
  finder.addEventListener("change", () => find(finder.value));
  zoom.forEach((button, larger) => button.addEventListener("click", () => { scale = Math.max(1, Math.min(16, larger ? 2 * scale : scale / 2)); lay(); }));
  document.addEventListener("pointermove", makeRoom);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") unchoose();
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input:not([type=range]), select")) return;
    // A scrolling region uses these keys itself.
    const scrolls = event.target.matches(".scroll");
    const tenth = Math.max(1, Math.round(ticks / 10));
    const far = bar.contains(event.target) ? { PageDown: tenth, PageUp: -tenth, Home: -ticks, End: ticks } : {};
    const by = scrolls ? undefined : { ArrowRight: 1, ArrowLeft: -1, ...far }[event.key];
    if (by !== undefined) { event.preventDefault(); if (playing) stop(); go(now + by); }
    if (event.key === " " && !scrolls && !event.target.matches("button")) { event.preventDefault(); play.click(); }
  });

  function lay() { readColours(); for (const view of views) view.lay(); draw(); }
  readColours();
  const views = [];
  plans.forEach((plan, place) => views.push(new View(plan, place)));
  lay();
  follow();
  window.addEventListener("hashchange", follow);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", lay);
  window.addEventListener("resize", lay);
  // For tests.
  window.remat = { go: goToStep, choose, start, stop, draw, get step() { return Number(field.value); }, get tick() { return now; } };
})();
