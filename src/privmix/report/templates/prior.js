// The attacker's view: one slider for the prior of all datasets. Limit p e^ε/(p e^ε + 1 − p), measured p TPR/(p TPR + (1 − p) FPR).
const PRIOR = 10; // per cent, if nothing was chosen
const exactPercent = share => { // as in the tables
  const value = 100 * share;
  if (value > 0 && value < .01) return "<0.01 %";
  if (value > 99.9 && value < 100) return ">99.9 %";
  const digits = value > 0 && value < .1 ? 2 : value > 0 && value < 10 || value > 99 && value < 100 ? 1 : 0;
  return `${value.toFixed(digits).replace(/\.0$/, "")} %`;
};
const span = (kind, words) => {
  const made = document.createElement("span");
  made.className = kind;
  made.textContent = words;
  return made;
};
for (const slider of document.querySelectorAll(".prior input[type=range]")) {
  const view = slider.closest("details");
  slider.closest("form").addEventListener("submit", event => event.preventDefault());
  slider.addEventListener("input", () => choose("attack", "prior", Number(slider.value) === PRIOR ? "" : slider.value));
  painters.push(() => {
    const wanted = Number(chosen.get("prior") ?? PRIOR);
    slider.value = Number.isInteger(wanted) && wanted >= 1 && wanted <= 99 ? wanted : PRIOR;
    const words = `${slider.value} %`, p = Number(slider.value) / 100;
    slider.setAttribute("aria-valuetext", words);
    for (const place of view.querySelectorAll("output, .before")) place.textContent = words;
    for (const cell of view.querySelectorAll("td.chosen")) {
      const {tpr, fpr, epsilon} = cell.dataset;
      const right = p * Number(tpr), alarms = right + (1 - p) * Number(fpr);
      const parts = [span("", alarms > 0 ? exactPercent(right / alarms) : "–")];
      if (epsilon) parts.push(" ", span("of", `(limit ${exactPercent(p / (p + (1 - p) * Math.exp(-Number(epsilon))))})`));
      cell.replaceChildren(...parts);
    }
  });
}
