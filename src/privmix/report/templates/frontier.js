// Frontiers, drawn with Observable Plot from the data in the page. The legend hides mechanisms in all of them.
const NS = "http://www.w3.org/2000/svg";
const polygon = (corners, turned = 0) => ({draw(context, size) {
  const radius = Math.sqrt(size) * .64;
  for (let corner = 0; corner < corners; corner++) {
    const angle = turned + 2 * Math.PI * corner / corners;
    context[corner ? "lineTo" : "moveTo"](radius * Math.sin(angle), -radius * Math.cos(angle));
  }
  context.closePath();
}});
const diagonalCross = {draw(context, size) {
  const far = Math.sqrt(size) * .6, near = far / 2;
  const corners = [[-far, -near], [-near, -far], [0, -near], [near, -far], [far, -near], [near, 0],
    [far, near], [near, far], [0, near], [-near, far], [-far, near], [-near, 0]];
  corners.forEach((corner, index) => context[index ? "lineTo" : "moveTo"](...corner));
  context.closePath();
}};
const SYMBOLS = {
  o: "circle", s: "square", "^": polygon(3), D: polygon(4), v: polygon(3, Math.PI), P: "cross", X: diagonalCross,
  p: polygon(5),
};
const minus = text => text.replace("-", "−");
const short = number => minus(String(+number.toPrecision(3)));
const tip = document.querySelector(".tip");
addEventListener("keydown", event => { if (event.key === "Escape") tip.hidden = true; });

const hidden = () => new Set((chosen.get("hide") ?? "").split(",").filter(Boolean));
const everyone = [...new Set(data.charts.flatMap(chart => chart.lines.map(line => line.mechanism)))];
const hide = names => choose("frontier", "hide", [...names].join(","));
const toggle = name => {
  const names = hidden();
  if (!names.delete(name)) names.add(name);
  hide(names);
};
const isolate = name => {
  const others = everyone.filter(other => other !== name);
  const alone = others.every(other => hidden().has(other)) && !hidden().has(name);
  hide(alone ? [] : others);
};

const percent = share => {
  const kept = 100 * Math.min(Math.max(share, 0), 1);
  if (kept > 99.9 && kept < 100) return ">99.9 %";
  return `${kept && (kept < 10 || kept > 99) ? +kept.toFixed(1) : Math.round(kept)} %`;
};
// A gap and the utility kept; below the public bounds alone, only the gap.
const gapTick = (gap, gain) => (gain && 1 + gap / gain >= 0 ? `${short(gap)} · ${percent(1 + gap / gain)}` : short(gap));

const gapOr = chart => (chart.gap ? gap => gapTick(gap, chart.gain) : short);

const LEAST_GAP = 1e-2; // the axis is linear nearer to zero
// Logarithmic from the decade of the smallest gap to the largest gap, and linear near zero.
const gapScale = values => {
  const lost = values.filter(gap => gap < 0).map(gap => -gap);
  const worst = Math.max(...lost, LEAST_GAP), nearest = Math.min(...lost, worst);
  const unit = 10 ** Math.floor(Math.log10(Math.max(nearest, LEAST_GAP)));
  const ticks = [0];
  for (let decade = unit; decade <= worst * 1.6; decade *= 10) ticks.push(-decade);
  if (ticks.length <= 4) ticks.push(...ticks.slice(1).map(tick => 3 * tick).filter(tick => -tick <= worst * 1.6));
  return {scale: {type: "symlog", constant: unit / 3, domain: [-worst * 1.5, Math.max(Math.max(...values) * 1.5, unit * .6)]}, ticks};
};
const linearScale = values => {
  const low = Math.min(...values), high = Math.max(...values), room = .08 * (high - low || Math.abs(high) || 1);
  const scale = {type: "linear", domain: [low - room, high + room]};
  return {scale, ticks: d3.ticks(...scale.domain, 6)};
};

const draw = (chart, card) => {
  const box = card.querySelector(".chart"), width = Math.floor(box.clientWidth);
  if (!width) return; // hidden; drawn when it gets a width
  const names = hidden(), trust = value("frontier-trust");
  const lines = chart.lines.filter(line => !names.has(line.mechanism) && (!trust || line.trust === trust));
  const points = lines.flatMap(line => line.points);
  const curved = chart.gap && value("frontier-y") !== "linear";
  const levels = chart.rules.map(rule => rule.value);
  const means = points.map(point => point.mean);
  // On a linear axis a far level would compress all lines, so only the best non-private model is always in view.
  const y = curved ? gapScale([...means, ...levels])
    : linearScale([...means, ...(chart.gap ? [0] : []), ...(means.length ? [] : levels)]);
  const {scale, ticks} = y;
  const within = level => level >= scale.domain[0] && level <= scale.domain[1];
  chart.rules.forEach((rule, index) =>
    card.querySelector(`[data-rule="${index}"]`).classList.toggle("out", !within(rule.value)));
  const byRatio = value("frontier-x") !== "linear";
  const ends = d3.extent(chart.epsilons);
  const room = (ends[1] - ends[0] || ends[1]) * .05;
  const apart = Math.min(width < 480 ? 3 : 5, 36 / lines.length);
  const marks = [
    Plot.gridY(ticks, {stroke: "var(--grid)", strokeOpacity: 1}),
    Plot.axisY(ticks, {tickFormat: gapOr(chart), tickSize: 0, label: null}),
    Plot.axisX(chart.epsilons, {tickFormat: short, tickSize: 4, label: null}),
    ...chart.rules.filter(rule => within(rule.value)).map(rule => Plot.ruleY([rule.value],
      {stroke: rule.colour, strokeWidth: 1.3, strokeDasharray: rule.dashes})),
    Plot.frame({anchor: "bottom", stroke: "var(--muted)"}),
  ];
  const tall = width < 480 ? 300 : 390, beside = 22;
  const left = 12 + 7 * d3.max(ticks, tick => gapOr(chart)(tick).length);
  const shift = index => (byRatio ? apart * (index - (lines.length - 1) / 2) : 0); // on a linear axis a shift would look like another ε
  lines.forEach((line, index) => {
    const common = {x: "epsilon", stroke: line.colour, dx: shift(index), clip: true};
    marks.push(
      Plot.ruleX(line.points.filter(point => point.low !== null), {...common, y1: "low", y2: "high", strokeWidth: 1.3}),
      Plot.line(line.points, {...common, y: "mean", strokeWidth: 2, strokeDasharray: line.hollow ? "6 3.5" : null}),
    );
  });
  lines.forEach((line, index) => marks.push(Plot.dot(line.points, {
    x: "epsilon", y: "mean", dx: shift(index), symbol: SYMBOLS[line.marker], r: 4.5, stroke: line.colour, strokeWidth: 1.6,
    fill: line.hollow ? "var(--surface)" : line.colour,
  })));
  const plot = Plot.plot({
    width, height: tall, marginLeft: left, marginRight: beside, marginTop: 34, marginBottom: 44,
    style: {fontSize: "12.5px", fontFamily: "inherit", overflow: "visible", background: "none"},
    x: {type: byRatio ? "log" : "linear",
      domain: byRatio ? [ends[0] / 1.35, ends[1] * 1.35] : [ends[0] - room, ends[1] + room]},
    y: scale, marks,
  });
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-label", `${chart.title}: ${lines.length} of ${chart.lines.length} mechanisms; arrow keys go from marker to marker`);
  for (const part of plot.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label"); // no effect without a role
  for (const part of plot.children) part.setAttribute("aria-hidden", "true");
  name(plot, chart.gap ? `gap, nats per record${chart.gain ? " · utility kept" : ""}` : "held-out log-likelihood, nats per record", 0, 14, "start");
  name(plot, "ε (smaller protects more)", (left + width - beside) / 2, tall - 6, "middle");
  targets(plot, lines, shift);
  box.replaceChildren(plot);
};

const name = (plot, words, x, y, where) => {
  const text = plot.appendChild(document.createElementNS(NS, "text"));
  for (const [key, setting] of Object.entries({x, y, "text-anchor": where, fill: "var(--muted)", "aria-hidden": "true"})) {
    text.setAttribute(key, setting);
  }
  text.textContent = words;
};

// The Tab key stops once per picture. Arrow keys move along a line and between lines.
const targets = (plot, lines, shift) => {
  const [x, y] = [plot.scale("x"), plot.scale("y")];
  const rows = lines.map((line, index) => line.points.map(point => {
    const spot = plot.appendChild(document.createElementNS(NS, "circle"));
    const words = point.facts.map(([label, text]) => `${label} ${text}`).join(", ");
    const settings = {class: "spot", cx: x.apply(point.epsilon) + shift(index), cy: y.apply(point.mean), r: 10,
      role: "img", tabindex: -1, "aria-label": `${line.mechanism}: ${words}`};
    for (const [key, setting] of Object.entries(settings)) spot.setAttribute(key, setting);
    spot.style.color = line.colour;
    for (const kind of ["pointerenter", "focus"]) spot.addEventListener(kind, () => tell(spot, line, point));
    spot.addEventListener("pointerleave", () => { if (document.activeElement !== spot) tip.hidden = true; });
    spot.addEventListener("blur", () => { tip.hidden = true; });
    return spot;
  }));
  rows[0]?.[0].setAttribute("tabindex", 0);
  plot.addEventListener("keydown", event => {
    const row = rows.findIndex(spots => spots.includes(event.target));
    const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};
    if (row === -1 || !moves[event.key]) return;
    event.preventDefault();
    const [down, right] = moves[event.key];
    const next = rows[(row + down + rows.length) % rows.length];
    const spot = next[Math.max(0, Math.min(next.length - 1, rows[row].indexOf(event.target) + right))];
    event.target.setAttribute("tabindex", -1);
    spot.setAttribute("tabindex", 0);
    spot.focus();
  });
};

const tell = (spot, line, point) => {
  const heading = document.createElement("b");
  heading.textContent = line.mechanism;
  heading.style.color = line.colour;
  const list = document.createElement("dl");
  for (const [label, text] of point.facts) {
    list.appendChild(document.createElement("dt")).textContent = label;
    list.appendChild(document.createElement("dd")).textContent = text;
  }
  tip.replaceChildren(heading, list);
  tip.hidden = false;
  const place = spot.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const wide = document.documentElement.clientWidth, tall = document.documentElement.clientHeight;
  const right = place.right + 8, above = place.top - size.height - 6;
  const left = right + size.width < wide - 8 ? right : Math.max(8, place.left - size.width - 8);
  // Beside the marker if there is room; on a phone, above or below it.
  const beside = left >= right || left + size.width < place.left;
  const top = beside ? Math.min(Math.max(8, place.top - 20), tall - size.height - 8) : above > 8 ? above : place.bottom + 6;
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${top + scrollY}px`;
};

const cards = data.charts.map(chart => [chart, document.querySelector(`.frontier[data-dataset="${CSS.escape(chart.dataset)}"]`)]);
const frontierForm = document.getElementById("frontier-controls");
if (frontierForm) {
  bind(frontierForm);
  frontierForm.querySelector(".show-all").addEventListener("click", () => hide([]));
  const paintCard = (chart, card) => {
    const names = hidden(), trust = value("frontier-trust"), dataset = value("frontier-dataset");
    card.classList.toggle("unchosen", Boolean(dataset) && dataset !== chart.dataset);
    for (const line of chart.lines) {
      const item = card.querySelector(`[data-mechanism="${CSS.escape(line.mechanism)}"]`);
      item.hidden = Boolean(trust) && line.trust !== trust;
      item.querySelector(".toggle").setAttribute("aria-pressed", !names.has(line.mechanism));
    }
    draw(chart, card);
  };
  for (const [chart, card] of cards) {
    card.querySelector(".toggles").classList.toggle("many", chart.lines.length > 14);
    for (const item of card.querySelectorAll("[data-mechanism]")) {
      const mechanism = item.dataset.mechanism, button = item.querySelector(".toggle");
      button.addEventListener("click", event => (event.shiftKey ? isolate : toggle)(mechanism));
      button.addEventListener("dblclick", event => { if (!event.shiftKey) isolate(mechanism); });
      item.querySelector(".only").addEventListener("click", () => isolate(mechanism));
    }
  }
  painters.push(() => {
    tip.hidden = true;
    frontierForm.querySelector(".show-all").disabled = !everyone.some(mechanism => hidden().has(mechanism));
    for (const [chart, card] of cards) paintCard(chart, card);
  });
}
