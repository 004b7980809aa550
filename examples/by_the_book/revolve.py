"""Revolve: griewank2000 (ACM algorithm 799), sections 1 and 2, the procedure that returns one action per call.

A chain of n equal steps runs forward and is then reversed, from the last step to the first. Revolve places at most
`snaps` checkpoints so that the number of forward steps is minimum.

Input
    n, snaps  int64      number of time steps (l in the text) and of checkpoints, the initial state included

Output
    action  int64[t]     TAKESHOT, ADVANCE, FIRSTURN, YOUTURN, RESTORE or TERMINATE
    place   int64[t]     the state that is stored, reached or restored, or the time step that is reversed

Symbols of the paper
    beta(s, r)           (s + r choose s), the number of steps that s checkpoints reverse with at most r runs per step
    t(n, s)              minimum number of forward steps, without the run of a step directly before its reversal
    check, capo, fine    index of the newest checkpoint, the current state, end of the steps that are not yet reversed

Differences from the text
    The procedure of the text is called once per action; here a loop around it collects the actions of all calls.
    The text multiplies and divides its five binomial coefficients into each other; here each is a call of beta.
"""

import numpy as np
from numba import njit

TAKESHOT, ADVANCE, FIRSTURN, YOUTURN, RESTORE, TERMINATE = range(6)


@njit
def beta(s, r):
    """Return (s + r choose s), and 0 if s or r is negative."""
    if s < 0 or r < 0:
        return 0
    product = 1
    for i in range(1, min(s, r) + 1):
        product = product * (s + r + 1 - i) // i
    return product


@njit
def repetitions(n, s):
    """Return the smallest r with beta(s, r) >= n."""
    r = 0
    while beta(s, r) < n:
        r += 1
    return r


@njit
def forward_steps(n, s):
    """Return t(n, s) = r n - beta(s + 1, r - 1)."""
    r = repetitions(n, s)
    return r * n - beta(s + 1, r - 1)


@njit
def recurrence(n, s):
    """Return t(n, s) by its definition: the minimum over m of m + t(n - m, s - 1) + t(m, s)."""
    t = np.zeros((n + 1, s + 1), np.int64)
    for i in range(2, n + 1):
        t[i, 1] = i * (i - 1) // 2
        for k in range(2, s + 1):
            t[i, k] = 1 + t[i - 1, k - 1]
            for m in range(2, i):
                t[i, k] = min(t[i, k], m + t[i - m, k - 1] + t[m, k])
    return t[n, s]


@njit
def advance(n, s):
    """Return the number of steps from a checkpoint to the next one, for n steps and s free checkpoints."""
    r = repetitions(n, s)
    if n <= beta(s, r - 1) + beta(s - 2, r - 1):
        return max(beta(s, r - 2), 1)
    if n >= beta(s, r) - beta(s - 3, r):
        return beta(s, r - 1)
    return n - beta(s - 1, r - 1) - beta(s - 2, r - 1)


@njit
def revolve(n, snaps):
    """Return the actions and their places."""
    action, place = np.empty(5 * n + 1, np.int64), np.empty(5 * n + 1, np.int64)
    ch = np.empty(snaps, np.int64)
    check, capo, fine, t = -1, 0, n, 0
    while True:
        if fine == capo and check == -1:
            action[t] = TERMINATE
        elif fine == capo:
            capo = ch[check]
            action[t] = RESTORE
        elif fine - capo == 1:
            # A checkpoint directly before the reversed step is free.
            action[t] = FIRSTURN if fine == n else YOUTURN
            fine -= 1
            if check >= 0 and ch[check] == capo:
                check -= 1
        elif check == -1 or ch[check] != capo:
            check += 1
            ch[check] = capo
            action[t] = TAKESHOT
        else:
            capo += advance(fine - capo, snaps - check)
            action[t] = ADVANCE
        place[t] = capo
        t += 1
        if action[t - 1] == TERMINATE:
            return action[:t], place[:t]


def main():
    names = ("store", "run to", "reverse", "reverse", "restore", "end at")
    for snaps in (1, 2, 3, 10):
        action, place = revolve(10, snaps)
        print(f"10 steps, {snaps} checkpoints: {forward_steps(10, snaps)} forward steps")
        print("    " + ", ".join(f"{names[a]} {p}" for a, p in zip(action, place, strict=True)))


if __name__ == "__main__":
    main()
