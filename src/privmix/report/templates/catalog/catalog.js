// The URL fragment holds the state: `#name` is a dataset, `#?q=words&visibility=public` a search of the list.
(() => {
  "use strict";
  const fields = [...document.querySelectorAll(".search [data-key]")];
  const search = document.getElementById("search-field");
  const cards = [...document.querySelectorAll(".entries > li")];
  const sections = [...document.querySelectorAll(".entry")];
  const title = document.title;
  // Remove case and accents for the search.
  const plain = text => text.normalize("NFKD").replace(/\p{Mn}/gu, "").toLowerCase();
  const words = new Map(cards.map(card => [card, plain(card.dataset.words)]));

  const asked = () => {
    const state = new URLSearchParams();
    for (const field of fields) if (field.value.trim()) state.set(field.dataset.key, field.value.trim());
    return state;
  };

  const filter = () => {
    const state = asked();
    const wanted = plain(state.get("q") ?? "").split(/\s+/).filter(Boolean);
    const matches = card => wanted.every(word => words.get(card).includes(word))
      && ["visibility", "source"].every(key => !state.has(key) || card.dataset[key] === state.get(key));
    for (const card of cards) card.hidden = !matches(card);
    const shown = cards.filter(card => !card.hidden);
    // In print, the datasets follow the list.
    for (const section of sections) section.hidden = !shown.some(card => card.dataset.name === section.id);
    document.querySelector(".nothing").hidden = shown.length > 0;
    const all = `${cards.length} ${cards.length === 1 ? "dataset" : "datasets"}`;
    document.querySelector(".found").textContent = shown.length === cards.length ? all : `${shown.length} of ${all}`;
  };

  const show = moved => {
    const [name, query] = decoded(location.hash.slice(1));
    const current = sections.find(section => section.id === name);
    if (!current && name) return; // an anchor inside the page
    document.body.dataset.view = current ? "entry" : "list";
    for (const section of sections) section.classList.toggle("current", section === current);
    document.title = current ? `${current.dataset.title}: ${title}` : title;
    if (current) {
      current.hidden = false;
    } else {
      const state = new URLSearchParams(query);
      for (const field of fields) {
        field.value = state.get(field.dataset.key) ?? "";
        if (field.selectedIndex === -1) field.selectedIndex = 0; // not an option of the list
      }
      filter();
    }
    if (!moved) return;
    const heading = current ? current.querySelector("h2") : document.getElementById("overview-title");
    heading.focus({preventScroll: true});
    scrollTo({top: 0, behavior: "instant"});
  };

  const decoded = hash => {
    const [name, query = ""] = hash.split(/\?(.*)/s);
    try { return [decodeURIComponent(name), query]; } catch { return [name, query]; }
  };

  const changed = () => {
    const state = asked().toString();
    history.replaceState(null, "", state ? `#?${state}` : "#");
    filter();
  };

  for (const field of fields) field.addEventListener("input", changed);
  document.querySelector(".search").addEventListener("submit", event => event.preventDefault());
  addEventListener("hashchange", () => show(true));
  addEventListener("keydown", event => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      if (document.body.dataset.view === "entry") location.hash = "#";
      setTimeout(() => search.focus());
    } else if (event.key === "Escape" && event.target === search && search.value) {
      event.preventDefault();
      search.value = "";
      changed();
    }
  });
  document.getElementById("overview-title").tabIndex = -1;
  document.querySelector(".search").hidden = false;
  show(false);
})();
