// Results tables: sort by a click on a column head, filter with the fields above, and save files.
const tables = [...document.querySelectorAll(".card.results")].map(card => ({
  card, dataset: card.dataset.dataset, body: card.querySelector("tbody"),
  heads: [...card.querySelectorAll("thead th")], rows: [...card.querySelectorAll("tbody tr")],
}));
const resultsForm = document.getElementById("results-controls");
bind(resultsForm);

// Remove case and accents for the search.
const folded = text => text.normalize("NFKD").replace(/\p{Mn}/gu, "").toLowerCase();
const sortKey = dataset => `sort.${dataset}`;
const NUMBER = /^-?(\d|inf)/;

const compared = (a, b) => {
  const [one, two] = [a, b].map(text => (NUMBER.test(text) ? Number(text.replace("inf", "Infinity")) : text));
  return typeof one === "number" && typeof two === "number" ? one - two || 0 : String(one).localeCompare(String(two));
};
const known = text => Boolean(text) && text !== "None" && text !== "nan";

const sortTable = ({dataset, heads, rows, body}) => {
  const wanted = chosen.get(sortKey(dataset)) ?? "", down = wanted.startsWith("-");
  const column = heads.findIndex(head => head.dataset.key === wanted.replace("-", ""));
  heads.forEach((head, index) => {
    if (index === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  const cell = row => {
    const found = row.cells[column];
    return !found || found.colSpan > 1 ? "" : found.dataset.value ?? found.textContent; // the reason of a failure spans several columns
  };
  const order = [...rows];
  if (column !== -1) order.sort((a, b) => {
    const [one, two] = [cell(a), cell(b)];
    if (known(one) !== known(two)) return known(one) ? -1 : 1; // missing values come last in both directions
    return (down ? -1 : 1) * (known(one) ? compared(one, two) : 0);
  });
  body.append(...order);
};

const filterTables = () => {
  const words = folded(value("results-words")).split(/\s+/).filter(Boolean);
  // An empty choice means the reported ε. Non-private rows are shown with every ε.
  const dataset = value("results-dataset"), at = value("results-epsilon") || resultsForm.dataset.usual || "all";
  let shown = 0, all = 0;
  for (const table of tables) {
    let here = 0;
    for (const row of table.rows) {
      const text = folded(row.textContent);
      row.hidden = !((!dataset || dataset === table.dataset) && (at === "all" || row.dataset.at === "none" || at === row.dataset.at)
        && words.every(word => text.includes(word)));
      here += !row.hidden;
    }
    table.card.classList.toggle("unchosen", here === 0);
    shown += here;
    all += table.rows.length;
  }
  resultsForm.querySelector(".found").textContent = shown === all ? `${all} rows` : `${shown} of ${all} rows`;
};

for (const table of tables) {
  for (const head of table.heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const now = chosen.get(sortKey(table.dataset)), key = head.dataset.key;
      choose("results", sortKey(table.dataset), now === key ? `-${key}` : now === `-${key}` ? "" : key);
    });
  }
}

const save = (name, parts, type) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};
const shownRows = () => tables.flatMap(({dataset, body}) =>
  [...body.rows].filter(row => !row.hidden).map(row => data.rows[dataset][row.dataset.row]));
const unpacked = async file => {
  const bytes = Uint8Array.from(atob(file.content), letter => letter.charCodeAt(0));
  if (!file.packed) return bytes;
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
};
resultsForm.addEventListener("click", async event => {
  const what = event.target.dataset.save;
  if (what === "shown") save("results-shown.csv", [data.header, ...shownRows()], "text/csv");
  else if (what) {
    const file = data.files[what];
    save(file.address.split("/").pop(), [await unpacked(file)], what === "csv" ? "text/csv" : "application/vnd.apache.parquet");
  }
});
painters.push(() => { tables.forEach(sortTable); filterTables(); });
