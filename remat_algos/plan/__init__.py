"""From a graph and a budget to a plan that has been judged."""
