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
  graph.full = graph.names.map((name, v) => graph.long[v] ?? name); // long names are shown shortened
  const plans = data.plans.filter((plan) => plan.order.length);
  const steps = plans.reduce((found, plan) => Math.max(found, plan.order.length), 1);
  const ROLES = ["first run", "recomputed", "gradient", "loaded"];
  const NODES = [["kept", "first run, live"], ["again", "recomputed"], ["loaded", "loaded from the host"], ["grad", "gradient"], ["paper", "not live"], ["now", "runs now"]];
  const CELLS = [["kept", "first run"], ["again", "recomputed"], ["loaded", "loaded"], ["span", "live"]];
  const NONE = ROLES.length, HIDDEN = -1; // what a node holds beside a role: nothing; not drawn yet
  const NS = "http://www.w3.org/2000/svg";
  let now = 0, chosen = -1, playing = false, spoken = 0;

  // ------------------------------------------------------------ elements

  const make = (tag, attributes = {}, ...children) => {
    const found = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
    found.append(...children);
    return found;
  };
  const drawn = (tag, attributes, text) => {
    const found = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
    if (text !== undefined) found.textContent = text;
    return found;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  let colours = {};
  const readColours = () => {
    for (const name of ["paper", "ink", "soft", "line", "edge", "kept", "again", "loaded", "grad", "span", "now"]) colours[name] = colour(name);
  };

  const previous = make("button", { type: "button", "aria-label": "one step back" }, "◀");
  const play = make("button", { type: "button", id: "play" }, "Play");
  const next = make("button", { type: "button", "aria-label": "one step on" }, "▶");
  const scrub = make("input", { type: "range", id: "scrub", min: 0, max: steps - 1, value: 0, "aria-label": "step" });
  const field = make("input", { type: "number", id: "step", min: 0, max: steps - 1, value: 0, "aria-label": "number of the step" });
  const speed = make("select", { id: "speed", "aria-label": "steps in a second" });
  for (const rate of [1, 4, 12, 30, 60, 240]) speed.append(make("option", { value: rate }, `${rate} steps/s`));
  speed.value = steps > 400 ? "60" : steps > 60 ? "12" : "4";
  const names = make("datalist", { id: "names" });
  const finder = make("input", { id: "node", list: "names", placeholder: "a node", "aria-label": "name of a node" });
  finder.addEventListener("focus", () => names.append(...graph.full.map((name) => make("option", { value: name }))), { once: true });
  const zoom = [make("button", { type: "button", "aria-label": "draw the graphs smaller" }, "−"), make("button", { type: "button", "aria-label": "draw the graphs larger" }, "+")];
  const title = make("h1", {}, document.title);
  const bar = make("div", { id: "bar", role: "group", "aria-label": "steps" }, previous, play, next, scrub, field, speed, finder, ...zoom);
  const grid = make("div", { id: "plans" });
  const about = make("div", { id: "about", role: "region", tabindex: 0, "aria-label": "the chosen node" });
  const announced = make("p", { id: "announced", role: "status" }); // of nodes that are clicked or typed, not of all that are pointed at
  const help = make("p", { id: "help" }, "Steps count from 0. Arrow keys: one step; space: play; in this bar Page Up and Page Down: a tenth of the steps, Home and End: the ends. Click the curve or the schedule to go to a step; point at a node or a cell, or type a name, to see why; Escape puts that away.");
  document.body.append(make("main", {}, title, bar, help, grid, announced), about);

  // ------------------------------------------------------------ graph

  const xs = [], ys = [];
  for (let v = 0; v < n; v++) { xs.push(layout.points[2 * v + 1]); ys.push(layout.points[2 * v]); } // layers from left to right
  const most = (all, least = -Infinity) => all.reduce((a, b) => Math.max(a, b), least);
  const spans = (all) => [-most(all.map((each) => -each)), most(all)];
  const flat = (pieces, at) => pieces.filter((_, i) => i % 2 === at);
  const [left, right] = spans([...xs, 0]);
  const [top, bottom] = spans([...ys, ...flat(layout.inside, 0), 0]);
  const margin = n <= 25 ? 40 : 20; // names need room
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
      for (const [word, said] of plan.facts) facts.append(make("dt", {}, word), make("dd", {}, said));
      this.status = make("p", { class: "status" });
      if (!this.place) this.status.setAttribute("role", "status");
      this.graph = make("canvas", { role: "img", "aria-label": `graph of ${plan.title}; the table of live values says the same` });
      this.matrix = make("canvas", { role: "img", "aria-label": `schedule of ${plan.title}: steps down, nodes across` });
      this.cursor = make("i", { class: "cursor", "aria-hidden": "true" });
      this.curve = this.drawCurve();
      this.hint = make("p", { class: "hint" }, "");
      const lines = make("ul", { class: "legend" });
      for (const name of ["limit", "floor"]) if (plan[name]) lines.append(make("li", {}, make("i", { class: `rule ${name}`, "aria-hidden": "true" }), texts[plan[name][1]]));
      this.rows = make("tbody");
      const head = make("thead", {}, make("tr", {}, ...["value", "bytes", "made at step", "last live step", "kind"].map((word) => make("th", { scope: "col" }, word))));
      this.count = make("h3", {}, "live values");
      const region = (name, child) => make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${name}, ${plan.title}` }, child);
      this.section = make("section", { "aria-label": plan.title }, make("h2", {}, plan.title), facts, this.status,
        make("h3", {}, "graph"), legend(NODES), region("graph", this.graph), make("h3", {}, `memory: steps 0 to ${this.m - 1}, up to ${texts[data.top[1]]}`), make("div", { class: "curve" }, this.curve, this.cursor), this.hint, lines);
      if (plan.engines) {
        const lanes = make("ul", { class: "legend" });
        for (const [at, name] of [...plan.engines.names, "bytes on the host"].entries()) {
          lanes.append(make("li", {}, make("i", { class: `rule ${["compute", "out", "into", "host"][at]}`, "aria-hidden": "true" }), name));
        }
        this.moment = make("i", { class: "cursor", "aria-hidden": "true" });
        this.section.append(make("h3", {}, "compute, copies and host memory over time"), make("div", { class: "curve" }, this.drawEngines(), this.moment), lanes);
      }
      this.section.append(make("h3", {}, "schedule: steps down, nodes across"), legend(CELLS), region("schedule", this.matrix), this.count, region("live values", make("table", {}, head, this.rows)));
      grid.append(this.section);
      this.graph.addEventListener("pointermove", (event) => this.overGraph(event));
      this.graph.addEventListener("click", (event) => { const v = this.nodeAt(event); if (v >= 0 && this.runs[v].length) go(this.runs[v][0]); announce(v); });
      this.matrix.addEventListener("pointermove", (event) => choose(this.cellAt(event)[1]));
      this.matrix.addEventListener("click", (event) => { const [s, v] = this.cellAt(event); go(s); announce(v); });
      const over = (event) => {
        const step = Math.max(0, Math.min(this.m - 1, this.stepAt(event)));
        this.hint.textContent = `step ${step}: ${texts[plan.bytes[step]]}, ${graph.names[plan.order[step]]}`;
        if (event.buttons || event.type === "click") go(step);
      };
      for (const kind of ["pointermove", "pointerdown", "click"]) this.curve.addEventListener(kind, over);
      this.curve.addEventListener("pointerleave", () => { this.hint.textContent = ""; });
    }

    // -------------------------------------------------------- the curve

    drawCurve() {
      const { plan, m } = this;
      const svg = drawn("svg", { viewBox: "0 0 1000 200", preserveAspectRatio: "none", role: "img", "aria-label": `memory of ${plan.title} by step` });
      const x = (s) => (1000 * s / m).toFixed(1), y = (amount) => (200 - 200 * amount / data.top[0]).toFixed(1);
      let path = "M0 200";
      plan.trace.forEach((amount, s) => { path += `V${y(amount)}H${x(s + 1)}`; });
      svg.append(drawn("path", { d: `${path}V200Z`, class: "area" }));
      for (const [name, line] of [["limit", plan.limit], ["floor", plan.floor]]) {
        if (!line) continue;
        svg.append(drawn("line", { x1: 0, x2: 1000, y1: y(line[0]), y2: y(line[0]), class: name }));
      }
      return svg;
    }

    stepAt(event) {
      const box = this.curve.getBoundingClientRect();
      return Math.floor(this.m * (event.clientX - box.left) / box.width);
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
      const unit = Math.min((wide - 2 * margin) / Math.max(1, right - left), 0.5);
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
      const [a, b] = this.unit, x = margin - left * a, y = margin - top * b; // as in `point`
      paper.lineWidth = 0.6; paper.strokeStyle = colours.edge;
      paper.globalAlpha = Math.max(0.2, Math.min(1, 16000 / (layout.inside.length + layout.across.length))); // many lines are fainter
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
      let found = -1, least = 14 ** 2;
      for (let v = 0; v < n; v++) {
        const [x, y] = this.point(xs[v], ys[v]);
        const far = (x - event.clientX + box.left) ** 2 + (y - event.clientY + box.top) ** 2;
        if (far < least) { least = far; found = v; }
      }
      return found;
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
      changed.forEach((nodes, kind) => { // a step changes few nodes, and the others stay drawn
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
        if (v < 0) continue;
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
      const across = Math.ceil(n / 1200), down = Math.ceil(m / 1200); // nodes and steps of a pixel
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
      this.cursor.style.transform = `translateX(${100 * (this.at + 0.5) / this.m}%)`;
      if (this.moment) this.moment.style.transform = `translateX(${100 * this.plan.engines.begin[0][this.at] / this.plan.engines.time}%)`;
    }

    speak() {
      const { plan, at } = this;
      const node = plan.order[at];
      const action = this.again.has(at) ? "recomputes" : "computes";
      const freed = at + 1 <= this.m ? this.until[at + 1].map((i) => graph.values[plan.value[i]]) : [];
      let said = `Step ${at} of ${this.m - 1} ${action} ${graph.names[node]} (${texts[graph.costs[node]]}); ${this.live.size} ${this.live.size === 1 ? "value" : "values"}, ${texts[plan.bytes[at]]} live`;
      if (at === plan.peak_step) said += ", the peak";
      if (freed.length) said += `; frees ${freed.slice(0, 4).join(", ")}${freed.length > 4 ? ` and ${freed.length - 4} more` : ""}`;
      if (plan.engines) {
        const loads = plan.engines.loads.filter((_, i) => plan.engines.load_step[i] === at).map((x) => graph.values[x]);
        if (loads.length) said += `; loads ${loads.join(", ")}`;
        said += `; compute waits ${texts[plan.engines.waits[at]]}; ${texts[plan.engines.host[at]]} on the host`;
      }
      this.status.textContent = `${said}.`;
      if (playing) return; // the table follows when it stops
      const live = [...this.live].sort((a, b) => plan.made[a] - plan.made[b]);
      this.count.textContent = `live values: ${live.length}`;
      this.rows.replaceChildren(...live.slice(-200).reverse().map((i) => make("tr", {},
        ...[graph.values[plan.value[i]], texts[graph.sizes[plan.value[i]]], plan.made[i], plan.end[i] - 1, ROLES[plan.role[i]]].map((cell) => make("td", {}, String(cell))))));
      if (live.length > 200) this.rows.append(make("tr", {}, make("td", { colspan: 5 }, `and ${live.length - 200} older values`)));
    }
  }

  function legend(entries) {
    const list = make("ul", { class: "legend" });
    for (const [name, word] of entries) {
      if (name === "loaded" && !plans.some((plan) => plan.role.includes(ROLES.indexOf("loaded")))) continue;
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

  // ------------------------------------------------------------ what is chosen

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

  function announce(v) { // for readers of the screen
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

  function makeRoom(event) { // what is said of a node that is pointed at must not lie over others
    if (about.classList.contains("pinned")) return;
    const above = event.clientY > window.innerHeight / 2;
    about.style.top = above ? `${Math.max(0, bar.getBoundingClientRect().bottom)}px` : "auto";
    about.style.bottom = above ? "auto" : "0";
  }

  function go(step) {
    now = Math.max(0, Math.min(steps - 1, Math.round(step) || 0));
    for (const view of views) view.jump(now);
    scrub.value = now; field.value = now;
    scrub.setAttribute("aria-valuetext", `step ${now}`);
    draw();
    const moment = performance.now();
    if (!playing || moment - spoken > 250) { spoken = moment; speak(); }
  }

  function speak() { for (const view of views) view.speak(); remember(); }
  function draw() { for (const view of views) view.draw(); }
  let waiting = 0;
  function remember() { // browsers limit how often an address may change, and some frames have none
    clearTimeout(waiting);
    if (!playing) waiting = setTimeout(() => {
      try {
        history.replaceState(null, "", `#step=${now}${chosen < 0 ? "" : `&node=${encodeURIComponent(graph.full[chosen])}`}`);
      } catch { /* no address to keep */ }
    }, 300);
  }

  // ------------------------------------------------------------ playing

  let begun = 0, first = 0;
  function frame(moment) {
    if (!playing) return;
    const step = first + Math.floor((moment - begun) / 1000 * Number(speed.value));
    if (step > now) go(step);
    if (now >= steps - 1) return stop();
    requestAnimationFrame(frame);
  }
  function start() {
    if (now >= steps - 1) go(0);
    playing = true; begun = performance.now(); first = now; play.textContent = "Pause";
    requestAnimationFrame(frame);
  }
  function stop() { playing = false; play.textContent = "Play"; speak(); }

  play.addEventListener("click", () => (playing ? stop() : start()));
  previous.addEventListener("click", () => { stop(); go(now - 1); });
  next.addEventListener("click", () => { stop(); go(now + 1); });
  speed.addEventListener("change", () => { begun = performance.now(); first = now; });
  for (const input of [scrub, field]) input.addEventListener("input", () => { if (input.value !== "") { if (playing) stop(); go(Number(input.value)); } });
  finder.addEventListener("change", () => {
    const v = graph.full.indexOf(finder.value);
    finder.setCustomValidity(v < 0 && finder.value ? "No node has this name." : "");
    finder.reportValidity();
    announce(v);
  });
  zoom.forEach((button, larger) => button.addEventListener("click", () => { scale = Math.max(1, Math.min(16, larger ? 2 * scale : scale / 2)); lay(); }));
  document.addEventListener("pointermove", makeRoom);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") unchoose();
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input:not([type=range]), select")) return;
    const scrolls = event.target.matches(".scroll"); // it has these keys itself
    const tenth = Math.max(1, Math.round(steps / 10));
    const far = bar.contains(event.target) ? { PageDown: tenth, PageUp: -tenth, Home: -steps, End: steps } : {};
    const by = scrolls ? undefined : { ArrowRight: 1, ArrowLeft: -1, ...far }[event.key];
    if (by !== undefined) { event.preventDefault(); if (playing) stop(); go(now + by); }
    if (event.key === " " && !scrolls && !event.target.matches("button")) { event.preventDefault(); play.click(); }
  });

  function lay() { readColours(); for (const view of views) view.lay(); draw(); }
  readColours();
  const views = [];
  plans.forEach((plan, place) => views.push(new View(plan, place)));
  const asked = new URLSearchParams(location.hash.slice(1));
  lay();
  go(Number(asked.get("step")) || 0);
  if (asked.get("node")) announce(graph.full.indexOf(asked.get("node")));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", lay);
  window.addEventListener("resize", lay);
  window.remat = { go, choose, start, stop, draw, get step() { return now; }, get playing() { return playing; } }; // for tests
})();
