chain, row, m, t = [set("abd"), set("abde"), set("abcdef"), set("abcdefg"), V], [], 0, 0
for L, bigger in zip([frozenset(), *chain], chain):
    (_, t, m), terms = transition(frozenset(L), frozenset(bigger), t, m)
    row.append(terms)
sets = ra.structure.LowerSets.of(eight, [[eight.node_id(v) for v in L] for L in chain])
assert sets.terms(eight).tolist() == row and list(map(sum, row)) == [18, 15, 23, 22, 17]
assert (sets.overhead(eight), sets.peak(eight), t) == (8, 23, 8) == (minimum(program(family, 23)), 23, 8)
assert len(family) == 13 and ra.solvers.least_budget(eight) == 23
