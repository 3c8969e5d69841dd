// The URL fragment holds the state of the page: `#frontier?dataset=…&hide=a,b` is a place and the choices of all sections.
const data = JSON.parse(document.getElementById("page-data").textContent);
const painters = []; // each draws a section from the URL fragment
const anchor = () => location.hash.slice(1).split("?")[0];
let chosen = new URLSearchParams(location.hash.split(/\?(.*)/s)[1] ?? "");

const repaint = () => { for (const paint of painters) paint(); };

// An empty choice means the default and is removed from the fragment.
const choose = (place, key, value) => {
  if (value) chosen.set(key, value); else chosen.delete(key);
  history.replaceState(null, "", `#${place}${String(chosen) && "?"}${chosen}`);
  repaint();
};

const goTo = place => { if (location.hash.includes("?")) document.getElementById(place)?.scrollIntoView(); };

let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth !== width) repaint(); // pictures depend on the width only; a phone's address bar changes only the height
  width = innerWidth;
});

addEventListener("hashchange", () => {
  if (location.hash.includes("?")) {
    chosen = new URLSearchParams(location.hash.split(/\?(.*)/s)[1]);
    repaint();
    goTo(anchor());
  } else if (String(chosen)) { // a link inside the page keeps the choices
    history.replaceState(null, "", `#${anchor()}?${chosen}`);
  }
});

// Bind the fields of a form to the URL fragment. A value that is not an option resets the field.
const bind = form => {
  const fields = [...form.querySelectorAll("[data-key]")];
  const place = form.closest("section").id;
  for (const field of fields) field.addEventListener("input", () => choose(place, field.dataset.key, field.value.trim()));
  form.addEventListener("submit", event => event.preventDefault());
  painters.push(() => {
    for (const field of fields) {
      const wanted = chosen.get(field.dataset.key) ?? "";
      if (field.value.trim() !== wanted) field.value = wanted;
      if (field.selectedIndex === -1) field.value = "";
    }
  });
};
const value = id => document.getElementById(id)?.value.trim() ?? "";
