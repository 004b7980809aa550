assert (size(single, stash(single, set())), size(single, stash(single, {2, 3})), minimum) == (4, 8, 4)
