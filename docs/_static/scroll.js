// What scrolls can be reached by the keyboard.
function reachable() {
  for (const box of document.querySelectorAll("article pre, article .table-wrapper, article p:has(> img), .cell_output")) {
    if (box.scrollWidth > box.clientWidth && !box.hasAttribute("tabindex")) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "wide content, scrolls");
    }
  }
}
addEventListener("load", reachable);
addEventListener("resize", reachable);
