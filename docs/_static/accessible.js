// For keyboards and screen readers: what scrolls can be reached, and captions of the sidebar have a level.
function reachable() {
  for (const box of document.querySelectorAll("article pre, article .table-wrapper, article p:has(> img), .cell_output")) {
    if (box.scrollWidth > box.clientWidth && !box.hasAttribute("tabindex")) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "wide content, scrolls");
    }
  }
}
addEventListener("load", () => {
  for (const caption of document.querySelectorAll('.caption[role="heading"]')) {
    caption.setAttribute("aria-level", "2"); // Sphinx leaves it out
  }
  reachable();
});
addEventListener("resize", reachable);
