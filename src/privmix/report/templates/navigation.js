// Mark the current section in the navigation: the last one that begins in the upper third of the window.
const stops = [...document.querySelectorAll('nav a[href^="#"]')]
  .map(link => [link, document.getElementById(link.hash.slice(1))]).filter(([, section]) => section);
let here = null;
const markHere = () => {
  const root = document.documentElement, ended = scrollY + innerHeight >= root.scrollHeight - 2;
  const begun = stops.filter(([, section]) => section.getBoundingClientRect().top <= innerHeight / 3);
  const [link] = (ended && scrollY ? stops : begun).at(-1) ?? stops[0] ?? [];
  if (!link || link === here) return;
  here?.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
  here = link;
  const list = link.closest("ul"); // the list scrolls sideways on a phone
  list.scrollTo({left: link.parentElement.offsetLeft - (list.clientWidth - link.offsetWidth) / 2});
};
let waiting = false;
addEventListener("scroll", () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; markHere(); });
}, {passive: true});
addEventListener("resize", markHere);
// A repaint may move the sections.
painters.push(markHere);
