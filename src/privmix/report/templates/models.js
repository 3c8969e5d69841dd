// Explorer: one model of a dataset, by mechanism and ε, beside the best non-private model.
const SIGMAS = 2;
const turns = d3.range(65).map(step => 2 * Math.PI * step / 64);

// The Cholesky factor of a covariance maps the unit circle to the ellipse of one standard deviation.
const ellipse = ({mean: [x, y], covariance: [across, both, up]}) => {
  const one = Math.sqrt(across), two = both / one, three = Math.sqrt(Math.max(up - two * two, 0));
  return turns.map(turn => [x + SIGMAS * one * Math.cos(turn), y + SIGMAS * (two * Math.cos(turn) + three * Math.sin(turn))]);
};
const bell = components => x => d3.sum(components, ({weight, mean: [centre], covariance: [variance]}) =>
  weight * Math.exp(-((x - centre) ** 2) / (2 * variance)) / Math.sqrt(2 * Math.PI * variance));

const flatMarks = (seen, colour, components) => {
  const heaviest = d3.max(components, component => component.weight);
  const cloud = (index, scales, channels, {width, height, marginLeft, marginRight, marginTop, marginBottom}) => {
    const use = document.createElementNS(NS, "use");
    use.setAttribute("href", `#cloud-${seen.dataset}`);
    use.setAttribute("transform", `translate(${marginLeft} ${marginTop}) scale(${width - marginLeft - marginRight} ${height - marginTop - marginBottom})`);
    return use;
  };
  return [
    ...(seen.cloud ? [cloud] : []),
    ...components.filter(component => component.seen).map(component => Plot.line(ellipse(component), {
      clip: true, stroke: colour, strokeWidth: 1.6, strokeOpacity: .45 + .55 * Math.sqrt(component.weight / heaviest),
      fill: colour, fillOpacity: .25 * component.weight,
    })),
    Plot.dot(components, {clip: true, x: component => component.mean[0], y: component => component.mean[1], symbol: "plus", stroke: colour, strokeWidth: 1.6, r: 4}),
    Plot.dot(seen.places, {x: "0", y: "1", r: 8, stroke: "var(--ink)", strokeWidth: 1.8}),
  ];
};
const lineMarks = (seen, colour, components) => [
  Plot.rect(seen.histogram, {x1: "0", x2: "1", y1: 0, y2: "2", fill: "var(--muted)", fillOpacity: .35}),
  Plot.line(d3.range(600).map(step => d3.interpolateNumber(...seen.limits[0])(step / 599)),
    {x: x => x, y: bell(components), stroke: colour, strokeWidth: 1.8}),
  Plot.ruleX(seen.places, {x: "0", stroke: "var(--ink)", strokeDasharray: "2 3"}),
];

const portray = (seen, figure, {label, colour}, fit) => {
  const box = figure.querySelector(".picture"), width = Math.floor(box.clientWidth);
  figure.querySelector(".name").textContent = label;
  figure.querySelector(".about").textContent = [fit.words, fit.about].filter(Boolean).join(" · ");
  figure.querySelector(".unseen").textContent = fit.unseen;
  if (!width) return; // hidden; drawn when it gets a width
  if (fit.failure) {
    const reason = document.createElement("div");
    reason.className = "empty";
    reason.textContent = fit.failure;
    box.replaceChildren(reason);
    return;
  }
  const flat = seen.axes.length === 2, margins = {marginLeft: flat ? 56 : 14, marginRight: 10, marginTop: 8, marginBottom: 42};
  const across = width - margins.marginLeft - margins.marginRight;
  const axis = (at, ticks) => ({ // enough digits to tell its ticks apart
    label: seen.axes[at], labelAnchor: "center", labelArrow: "none", ticks, tickSize: 3, tickFormat: d3.tickFormat(...seen.limits[at], ticks),
  });
  const plot = Plot.plot({
    width, height: Math.round(across * seen.shape) + margins.marginTop + margins.marginBottom, ...margins,
    style: {fontSize: "12px", fontFamily: "inherit", overflow: "visible", background: "none"},
    x: {domain: seen.limits[0]},
    y: flat ? {domain: seen.limits[1]} : {axis: null},
    marks: [
      ...(flat ? flatMarks : lineMarks)(seen, colour, fit.components),
      Plot.axisX(axis(0, 4)),
      ...(flat ? [Plot.axisY(axis(1, 4))] : []),
      Plot.frame({stroke: "var(--muted)"}),
    ],
  });
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", `${seen.dataset}: ${label}, ${fit.words}. Components: ${fit.components.length}.`);
  for (const part of plot.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
  box.replaceChildren(plot);
};

for (const seen of data.explorers) {
  const card = document.querySelector(`.explorer[data-dataset="${CSS.escape(seen.dataset)}"]`);
  const slider = card.querySelector("input[type=range]"), key = `epsilon.${seen.dataset}`;
  bind(card.querySelector("form"));
  slider.addEventListener("input", () => {
    const step = Number(slider.value);
    choose("models", key, step === seen.reference ? "" : seen.epsilons[step]);
  });
  painters.push(() => {
    const wanted = seen.epsilons.indexOf(chosen.get(key)), step = wanted === -1 ? seen.reference : wanted;
    const name = card.querySelector("select").value || seen.start;
    const model = seen.mechanisms.find(each => each.mechanism === name);
    slider.value = step;
    slider.setAttribute("aria-valuetext", `ε = ${seen.epsilons[step]}`);
    card.querySelector("output").textContent = seen.epsilons[step];
    if (seen.baseline) portray(seen, card.querySelector(".open"), seen.baseline, seen.baseline.fits[0]);
    portray(seen, card.querySelector(".closed"), model, model.fits[step]);
  });
}
