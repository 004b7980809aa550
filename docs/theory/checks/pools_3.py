assert (use.used // UNIT).tolist() == [4, 6, 5, 9, 7] and (use.reserved // UNIT).tolist() == [4, 6, 6, 12, 12]
