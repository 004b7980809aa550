// Scores of the search box: guides before theory, theory before tutorials and papers, and names of the API after pages.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 0, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, , , , score]) => {
    const folder = page.includes("/") ? page.split("/")[0] : "";
    const less = { api: 9, papers: 9, tutorials: 6, plans: 6, steps: 6, theory: 4, allocators: 3, solvers: 2 };
    const maintainers = ["artifact", "benchmarks", "changelog", "compiled", "contributing"];
    return score - (less[folder] ?? (maintainers.includes(page) ? 7 : 0));
  },
};
