"""Plans with copies to the host and back, in the most literal way: list of actions, memory, time, and lingering.

Loads are rows (step, value), rows of held memory (value, step, until), placed stores (step, value). Graphs have neither
marks nor updates.
"""

from dataclasses import dataclass

from tests.oracles.plain import plain
from tests.oracles.simulation import Unsound


@dataclass
class Instance:
    value: int
    made: int  # the step
    loaded: bool
    first: bool  # of its value
    end: int  # the first step after its life
    read: list[int]  # the steps that read it


class Free(tuple):
    """("free", value), and the place of the action that made what it frees."""

    maker: int


@dataclass(frozen=True)
class Timeline:
    begin: list[int]  # of each action; a free begins and ends when compute has waited for it
    end: list[int]
    time: int  # the end of the last run, store or load
    waits: list[int]  # of compute before each run, since the run before
    busy: dict[str, int]  # of the engines "compute", "out" and "in"


# ---------------------------------------------------------------- the list of actions


def actions(graph, order, loads, held=(), placed=()):
    """("load", x), ("compute", v), ("store", x) and ("free", x) as the laws order them; no law is checked.

    Frees between two runs stand in the order in which their instances were made. Outputs are never freed.
    """
    g, order, loads = plain(graph), [int(v) for v in order], pairs(loads)
    lives = instances(g, order, loads, held, placed)
    todo, maker_of = [], {}
    for step, node in enumerate(order):
        for i, life in enumerate(lives):
            if life.made == step and life.loaded:
                maker_of[i] = len(todo)
                todo.append(("load", life.value))
        maker_of |= {i: len(todo) for i, life in enumerate(lives) if life.made == step and not life.loaded}
        todo.append(("compute", node))
        todo += [("store", x) for x in stores(g, lives, step, placed)]
        for i, life in enumerate(lives):
            if life.end == step + 1 and life.value not in g.outputs:
                todo.append(Free(("free", life.value)))
                todo[-1].maker = maker_of[i]
    return todo


def stores(g, lives, step, placed=()):
    """Values that are stored after a step: those that it makes first and that are loaded anywhere, the first to be
    freed first, except for the placed; then those placed before the next step.
    """
    placed = pairs(placed)
    loaded = {life.value for life in lives if life.loaded} - {x for _, x in placed}
    fresh = [life for life in lives if life.first and life.made == step and life.value in loaded]
    by_default = [life.value for life in sorted(fresh, key=lambda life: (life.end, life.value))]
    return by_default + [x for at, x in placed if at == step + 1]


def instances(graph, order, loads, held=(), placed=()):
    """All instances in the order of making: the loads of a step, then the values that its run makes."""
    g, order, loads = plain(graph), [int(v) for v in order], pairs(loads)
    lives, seen = [], set()
    for step, node in enumerate(order):
        lives += [Instance(x, step, True, False, step + 1, []) for at, x in loads if at == step]
        for x in g.reads[node]:
            served = serving(g, lives, x)
            if served is not None:
                served.read.append(step)
        lives += [Instance(x, step, False, x not in seen, step + 1, []) for x in g.values[node]]
        seen |= set(g.values[node])
    for life in lives:
        if life.read:
            life.end = life.read[-1] + 1
        if life.first and life.value in g.outputs:
            life.end = len(order)
    for step, x in pairs(placed):
        copied = [life for life in lives if life.value == x and life.made < step][-1]
        copied.end = max(copied.end, step)
    for x, step, until in held:
        stays = [life for life in lives if life.value == x and life.made == step][-1]
        stays.end = max(stays.end, until)
    return lives


def serving(g, lives, value):
    """The newest instance of a value, of an output the first."""
    own = [life for life in lives if life.value == value]
    if not own:
        return None
    return own[0] if value in g.outputs else own[-1]


def pairs(rows):
    return [(int(a), int(b)) for a, b in rows]


# ---------------------------------------------------------------- what a list means


def makers(g, actions, value):
    """Actions that make an instance of a value: runs of its node, and loads."""
    return [i for i, action in enumerate(actions) if action in (("compute", g.producer[value]), ("load", value))]


def maker(g, actions, i, value):
    """The action whose instance serves a read of a value at action i, None if there is none."""
    before = [j for j in makers(g, actions, value) if j < i]
    if not before:
        return None
    return before[0] if value in g.outputs else before[-1]


def readers(g, actions, i, value):
    """Runs that read the instance of a value that action i makes."""
    runs = [j for j, (kind, at) in enumerate(actions) if kind == "compute" and value in g.reads[at]]
    return [j for j in runs if maker(g, actions, j, value) == i]


def freed(g, actions):
    """For each free the action that made what it frees: the one that it names, else the oldest that is left.

    Unsound("free of nothing") if there is none.
    """
    found = {}
    for i, action in enumerate(actions):
        if action[0] == "free":
            x = action[1]
            left = [
                j for j in makers(g, actions, x) if j < i and (x, j) not in [(actions[f][1], found[f]) for f in found]
            ]
            if not left:
                raise Unsound("free of nothing", step_of(actions, i), g.producer[x])
            found[i] = action.maker if isinstance(action, Free) else left[0]
    return found


def source(g, actions, value):
    """The action that made what is stored of a value: the newest before its store; None without a store."""
    return maker(g, actions, actions.index(("store", value)), value) if ("store", value) in actions else None


def step_of(actions, i):
    return sum(kind == "compute" for kind, _ in actions[:i])


# ---------------------------------------------------------------- memory


def play(graph, actions):
    """Device bytes and host bytes during each run: two lists.

    Unsound with the law, the step, and the node that makes the value: "unmade" (read of nothing), "once", "output" (one
    is loaded, stored or freed), "loaded before made", "loaded before stored", "stored before made", "stored after
    free", "stored twice", "free of nothing".
    """
    g, actions = plain(graph), list(actions)
    meant = freed(g, actions)
    live, host = {}, {}  # (value, action that made it): bytes; value: bytes
    device_trace, host_trace = [], []
    for i, (kind, at) in enumerate(actions):
        check_action(g, actions, i, live)
        if kind == "compute":
            live |= {(x, i): g.memory[x] for x in g.values[at]}
            device_trace.append(sum(live.values()) + g.workspace[at])
            host_trace.append(sum(host.values()))
            for x in g.outputs & set(g.values[at]):
                if makers(g, actions, x)[0] != i:
                    del live[x, i]  # the first copy of an output serves to the end
            host = {x: size for x, size in host.items() if needs_host(g, actions, i, x)}
        elif kind == "store":
            host[at] = g.memory[at]
        elif kind == "load":
            live[at, i] = g.memory[at]
        else:
            del live[at, meant[i]]
    return device_trace, host_trace


def needs_host(g, actions, i, value):
    """Whether a stored value is still on the host after run i: it is loaded later, or its last load not yet read."""
    last = max((j for j, action in enumerate(actions) if action == ("load", value)), default=len(actions))
    return i < min(readers(g, actions, last, value), default=last)


def check_action(g, actions, i, live):
    """The laws, for action i, with the (value, action that made it) of what is live."""
    kind, at = actions[i]
    node = at if kind == "compute" else g.producer[at]
    before = actions[:i]
    made = ("compute", node) in before

    def law(name, broken):
        if broken:
            raise Unsound(name, step_of(actions, i), node)

    if kind == "compute":
        law("once", g.once[node] and made)
        law("unmade", any((x, maker(g, actions, i, x)) not in live for x in g.reads[node]))
        return
    law("output", at in g.outputs)
    if kind == "store":
        law("stored before made", not made)
        law("stored twice", ("store", at) in before)
        law("stored after free", all(x != at for x, _ in live))
    if kind == "load":
        law("loaded before made", not made)
        law("loaded before stored", ("store", at) not in before)


# ---------------------------------------------------------------- time


def clock(graph, actions, out_time, in_time):
    """The `Timeline` of a list of actions: engines for compute, copies out and copies in, each in order of the list."""
    g, actions = plain(graph), list(actions)
    meant = freed(g, actions)
    now = out_free = in_free = 0  # `now` is where compute is
    begin, end = [], []
    stored, run_end, waits = {}, 0, []  # value: end of its store
    for i, (kind, at) in enumerate(actions):
        if kind == "compute":
            arrivals = [end[j] for j in (maker(g, actions, i, x) for x in g.reads[at]) if actions[j][0] == "load"]
            start = max([now, *arrivals])
            waits.append(start - run_end)
            now = run_end = stop = start + g.compute[at]
        elif kind == "store":
            start = max(now, out_free)
            stop = out_free = stored[at] = start + int(out_time[at])
        elif kind == "load":
            start = max(now, stored[at], in_free)
            stop = in_free = start + int(in_time[at])
        else:
            if meant[i] == source(g, actions, at):
                now = max(now, stored[at])
            elif actions[meant[i]][0] == "load":
                now = max(now, end[meant[i]])
            start = stop = now
        begin.append(start)
        end.append(stop)
    engine = {"compute": "compute", "store": "out", "load": "in"}
    busy = dict.fromkeys(engine.values(), 0)
    for (kind, _), start, stop in zip(actions, begin, end, strict=True):
        if kind != "free":
            busy[engine[kind]] += stop - start
    last = max((stop for (kind, _), stop in zip(actions, end, strict=True) if kind != "free"), default=0)
    return Timeline(begin, end, last, waits, busy)


# ---------------------------------------------------------------- lingering


def linger(graph, order, loads, limit, out_time, in_time, placed=()):
    """The loads and placed stores that stay, and rows of held memory: what leaves lingers while its store runs and it
    fits.

    A load of a value that still lingers is dropped: the value lives on. Then all is computed again, since a value
    without loads is not stored.
    """
    g, order, loads, placed = plain(graph), [int(v) for v in order], pairs(loads), pairs(placed)
    while True:
        held, needless = lingered(g, order, loads, limit, out_time, in_time, placed)
        if not needless:
            return loads, held, placed
        for row in needless:
            loads.remove(row)
        placed = [row for row in placed if row[1] in [x for _, x in loads]]


def lingered(g, order, loads, limit, out_time, in_time, placed):
    """Rows of held memory, and the loads of values that still linger."""
    lives = instances(g, order, loads, placed=placed)
    live, _ = play(g, actions(g, order, loads, placed=placed))
    copied = {life.value: life for life in lives if life.first}  # what is stored
    for step, x in placed:
        copied[x] = [life for life in lives if life.value == x and life.made < step][-1]
    end = {x: life.end for x, life in copied.items()}  # without lingering
    now = out_free = in_free = 0
    stored, arrived = {}, {}  # value: end of its store; place in lives: end of the load
    lingers, held, needless = set(), [], []

    for step, node in enumerate(order):
        lingers |= {x for x in stored if end[x] == step and stored[x] > now}
        now = max([now, *(arrived.get(i, 0) for i, life in enumerate(lives) if life.end == step)])
        fresh = [i for i, life in enumerate(lives) if life.loaded and life.made == step]
        for i in list(fresh):
            x = lives[i].value
            if x in lingers:
                lingers.remove(x)
                end[x] = lives[i].end
                needless.append((step, x))
                fresh.remove(i)
        while True:
            gone = [x for x in lingers if stored[x] <= now]
            lingers -= set(gone)
            held += [(x, copied[x].made, step) for x in gone if step > end[x]]
            if not lingers or live[step] + sum(g.memory[x] for x in lingers) <= limit:
                break
            now = min(stored[x] for x in lingers)
        for i in fresh:
            in_free = arrived[i] = max(now, stored[lives[i].value], in_free) + int(in_time[lives[i].value])
        now = max([now, *(arrived.get(i, 0) for i, life in enumerate(lives) if step in life.read)])
        now += g.compute[node]
        for x in stores(g, lives, step, placed):
            out_free = stored[x] = max(now, out_free) + int(out_time[x])
    return sorted(held), needless


# ---------------------------------------------------------------- random schedules


def random_copies(random, graph):
    """A random sound order with copies and held memory, from a `random.Random`: (order, loads, held, placed).

    Some runs are repeated; some loads serve nobody, some values are loaded often, some steps load several; some stores
    begin later than they could, some after the value has been made again.
    """
    g = plain(graph)
    order = random_order(random, g)
    steps = range(len(order))
    made = {x: order.index(v) for v in g.nodes for x in g.values[v] if x not in g.outputs}
    places = [(step, x) for x, first in made.items() for step in steps if step > first]
    useful = [(step, x) for step, x in places if x in g.reads[order[step]]]
    loads = random.choices(places, k=random.randint(0, 4)) if places else []
    for step, x in random.sample(useful, min(len(useful), random.randint(0, 4))):
        loads.append((random.randint(made[x] + 1, step), x))
    loads.sort(key=lambda row: row[0])
    placed = []
    for x in sorted({x for _, x in loads}):
        if random.random() < 0.4:
            placed.append((random.randint(made[x] + 1, min(step for step, y in loads if x == y)), x))
    random.shuffle(placed)
    placed.sort(key=lambda row: row[0])
    held, lives = [], instances(g, order, loads, placed=placed)
    for life in {(life.value, life.made): life for life in lives}.values():  # the newest of each step
        if life.value not in g.outputs and life.end < len(order) and random.random() < 0.2:
            held.append((life.value, life.made, random.randint(life.end + 1, len(order))))
    return order, loads, held, placed


def random_order(random, g):
    """Every node once after what it reads, then runs of some nodes at any later place."""
    order = []
    while len(order) < len(g.nodes):
        ready = [v for v in g.nodes if v not in order and all(u in order for u in g.predecessors(v))]
        order.append(random.choice(ready))
    for _ in range(random.randint(0, 4)):
        again = [v for v in g.nodes if not g.once[v] and g.mark[v] != 1]
        if again:
            node = random.choice(again)
            order.insert(random.randint(order.index(node) + 1, len(order)), node)
    return order
