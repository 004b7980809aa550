// For keyboards and screen readers: what scrolls can be reached, captions of the sidebar have a level, the sidebar a name.
// Boxes without a shadow, those of pictures and formulas, are marked at each end with more to see.
function reachable() {
  const boxes = "article pre, article .table-wrapper, article p:has(> img), article figure, article div.math, .cell_output";
  for (const box of document.querySelectorAll(boxes)) {
    if (box.scrollWidth > box.clientWidth && !box.hasAttribute("tabindex")) {
      box.tabIndex = 0;
      box.setAttribute("role", "group"); // a region would be a landmark, and needs a name of its own
      box.setAttribute("aria-label", "wide content, scrolls");
    }
    if (!box.matches("pre, .table-wrapper")) { // these have shadows
      more(box);
      box.onscroll = () => more(box);
    }
  }
}
function more(box) {
  const end = box.scrollLeft + box.clientWidth;
  const ends = [box.scrollLeft > 1 && "left", end < box.scrollWidth - 1 && "right"].filter(Boolean);
  if (ends.length) box.dataset.more = ends.join(" ");
  else delete box.dataset.more;
}
addEventListener("load", () => {
  for (const caption of document.querySelectorAll('.caption[role="heading"]')) {
    caption.setAttribute("aria-level", "2"); // Sphinx leaves it out
  }
  document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", "all pages");
  reachable();
  globalThis.MathJax?.startup?.promise?.then(reachable); // formulas have no width before
});
addEventListener("resize", reachable);
