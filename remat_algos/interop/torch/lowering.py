"""Lowering of a schedule to FX modules: each run or copy becomes a call, and views are recreated from their bases."""

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from torch import fx
from torch.fx.node import map_arg

from remat_algos.arguments import checked_arguments
from remat_algos.errors import PlanError
from remat_algos.interop.torch.calls import DRAW, STATE, arrive, check_streams, draw_again, leave, load, store
from remat_algos.interop.torch.capture_model import Captured
from remat_algos.interop.torch.private_names import OUTSIDE, Saved, SavedUnchecked
from remat_algos.interop.torch.storages import STORAGES, storages
from remat_algos.schedule.schedule import Schedule
from remat_algos.schedule.simulation import Simulation, Step, simulate

UNCHECKED = "saved_tensor_with_no_vc_check"
"""Key in `meta`: AOTAutograd does not check this saved tensor for changes between forward and backward."""


@checked_arguments
def lower(captured: Captured, schedule: Simulation | Schedule | Iterable[int]) -> fx.GraphModule:
    """Lower a schedule of a captured model to one straight-line module, forward and backward, for study and tests."""
    module, simulation = _checked(captured, schedule)
    writer, steps = _Lowering(captured, simulation), list(simulation.steps())
    boundary = next(step for step in steps if step.node == captured.boundary)
    writer.copy_inputs(module.graph.find_nodes(op="placeholder"), boundary)
    for step in steps:
        writer.run(step)
    output = module.graph.output_node()
    writer.graph.output(writer.results(captured.outputs)).meta |= output.meta
    return fx.GraphModule(module, writer.graph)


def split(captured: Captured, schedule: Simulation | Schedule | Iterable[int]) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Return the forward and the backward module that run a schedule, as AOTAutograd expects from a partitioner."""
    module, simulation = _checked(captured, schedule)
    inputs = module.graph.find_nodes(op="placeholder")
    tangents = [node for node in inputs if isinstance(node.meta.get("desc"), OUTSIDE)]
    outputs, descriptors_out = captured.outputs, module.graph.output_node().meta["desc"]
    steps = list(simulation.steps())
    cut = next(i for i, step in enumerate(steps) if step.node == captured.boundary)

    forward = _Lowering(captured, simulation)
    forward.copy_inputs((node for node in inputs if node not in tangents), steps[cut])
    for step in steps[:cut]:
        forward.run(step)
    forward.wait_for_loads()
    results = forward.results(outputs[: captured.num_forward])

    backward = _Lowering(captured, simulation, forward)
    backward.copy_inputs(tangents, steps[cut])
    for step in steps[cut:]:
        backward.run(step)
    gradients = backward.results(outputs[captured.num_forward :])
    backward.graph.output(gradients).meta["desc"] = descriptors_out[captured.num_forward :]

    saved = backward.saved()
    descriptors = [(SavedUnchecked if UNCHECKED in node.meta else Saved)(i) for i, node in enumerate(saved)]
    forward.graph.output(results + saved).meta["desc"] = [*descriptors_out[: captured.num_forward], *descriptors]
    return fx.GraphModule(module, forward.graph), fx.GraphModule(module, backward.graph)


def _checked(captured: Captured, schedule: Any) -> tuple[fx.GraphModule, Simulation]:
    if captured.module is None:
        raise PlanError("the captured model comes from a pickle, which has only its graph; capture the model again")
    simulation = schedule
    if not isinstance(schedule, Simulation) or schedule.graph is not captured.graph:
        simulation = simulate(captured.graph, getattr(schedule, "schedule", schedule))
    return captured.module, simulation


class _Lowering:
    """Copies operators of a joint graph into a module, once per run. An instance is a value as computed by one run."""

    def __init__(self, captured: Captured, simulation: Simulation, earlier: "_Lowering | None" = None) -> None:
        self.captured = captured
        self.graph = fx.Graph()
        self.earlier = earlier
        # Key: FX node of the joint graph, and the instances that store its result. Entry: copy in this module.
        self.copies: dict[tuple[fx.Node, tuple[int, ...]], fx.Node] = {}
        # Inputs of the backward module, each with its source in the forward module.
        self.received: list[tuple[fx.Node, fx.Node]] = []
        self.runs = simulation.runs
        self.parts = {part for parts in captured.tensors for part in parts}
        self.ran: set[fx.Node] = set() if earlier is None else earlier.ran
        self.pinned: dict[int, int] = {} if earlier is None else earlier.pinned  # value -> first instance
        self.node_of = {each: v for v, each in enumerate(captured.operators)}
        self.value: list[int] = simulation.lifetimes.value.tolist()  # instance -> value
        # `hosts`: host tensors of each value. `stored`: the instance that was copied to them.
        self.hosts: dict[int, list[fx.Node]] = {}
        self.stored: dict[int, int] = {} if earlier is None else earlier.stored
        self.arriving: set[int] = set()  # loaded instances, still unread

    def copy_inputs(self, inputs: Iterable[fx.Node], boundary: Step) -> None:
        """Copy inputs of the joint graph; the results of the step `boundary` are the gradients of the outputs."""
        arriving = dict(zip(self.captured.graph.values(boundary.node), boundary.makes, strict=True))
        for node in inputs:
            stored = tuple(arriving[x] for x in self.captured.bases[node])
            self.copies[node, stored] = self.graph.node_copy(node)

    def run(self, step: Step) -> None:
        for i in step.loads:
            self._load(i)
        self._run(step)
        for i in step.stores:
            self._store(i)
        for i in step.frees:
            self._free(i)

    def wait_for_loads(self) -> None:
        """Wait for each unread load: if no backward pass follows, its memory is freed at the end of this module."""
        for i in sorted(self.arriving):
            self._arrive(i)

    def _run(self, step: Step) -> None:
        node = self.captured.operators[step.node]
        values = self.captured.graph.values(step.node)
        computed = dict(zip(values, step.makes, strict=True))
        for x, instance in computed.items():
            self.pinned.setdefault(x, instance)
        if node is None or (DRAW in node.meta and self.runs[self.node_of[node.meta[DRAW]]] == 1):
            return
        serving = dict(step.reads)
        self._copy(node, serving, computed)
        if node not in self.parts:
            self._extract_items(node, serving | computed)
        self.ran.add(node)

    def results(self, outputs: Iterable[Any]) -> list[Any]:
        """Return the copies of outputs from the first runs of their operators; return numbers and None unchanged."""
        return [self.copy(each, self.pinned) if isinstance(each, fx.Node) else each for each in outputs]

    def copy(self, node: fx.Node, serving: Mapping[int, int]) -> fx.Node:
        """Return this module's copy of a result; create it if needed. `serving` maps each value to its instance."""
        key = (node, tuple(serving[x] for x in self.captured.bases[node]))
        if key not in self.copies:
            computed = None if self.earlier is None else self.earlier.copies.get(key)
            if computed is not None and (node.op == "placeholder" or node in self.parts):
                self.copies[key] = self._receive(computed)
            # A view is recreated from its base instead of being saved too.
            else:
                self.copies[key] = self.graph.node_copy(node, lambda read: self.copy(read, serving))
        if node in self.parts and key[1][0] in self.arriving:
            self._arrive(key[1][0])
        return self.copies[key]

    def saved(self) -> list[fx.Node]:
        """Return what the forward module must pass to this backward module, in the order of the backward inputs."""
        # AOTAutograd requires unchecked tensors to come last.
        self.received.sort(key=lambda pair: UNCHECKED in pair[1].meta)
        first = self._first_input()
        for node, _ in self.received:
            first.prepend(node)
        return [copy for _, copy in self.received]

    def _copy(self, node: fx.Node, serving: Mapping[int, int], computed: Mapping[int, int]) -> None:
        stored = {**serving, **computed}
        key = (node, tuple(stored[x] for x in self.captured.bases[node]))
        if STATE not in node.meta or node not in self.ran:
            self.copies[key] = self.graph.node_copy(node, lambda read: self.copy(read, serving))
            return
        args, kwargs = map_arg((node.args, node.kwargs), lambda read: self.copy(read, serving))
        state = node.meta[STATE]
        call = (state.args[0], self.copy(state, serving), node.target, *args)
        self.copies[key] = self.graph.call_function(draw_again, call, kwargs)
        self.copies[key].meta = dict(node.meta)

    def _load(self, i: int) -> None:
        parts, hosts = self.captured.tensors[self.value[i]], self._hosts(self.value[i])
        if hosts:
            loaded = self.graph.call_function(load, (parts[0].meta["val"].device, *hosts))
            for place, part in enumerate(parts):
                self.copies[part, (i,)] = self._call(part.meta, operator.getitem, loaded, place)
            self.arriving.add(i)

    def _arrive(self, i: int) -> None:
        self.arriving.remove(i)
        for part in self.captured.tensors[self.value[i]]:
            self.copies[part, (i,)] = self._call(part.meta, arrive, self.copies[part, (i,)])

    def _store(self, i: int) -> None:
        x = self.value[i]
        parts = self.captured.tensors[x]
        self.stored[x] = i
        self.hosts[x] = hosts = []
        # If a random operator is never replayed, the node that reads its generator's state is not copied.
        if all(self._is_there(part, i) for part in parts):
            check_streams(parts[0].meta["val"].device)
            stored = self.graph.call_function(store, tuple(self.copy(part, {x: i}) for part in parts))
            for place, part in enumerate(parts):
                on_host = part.meta["val"].to("cpu", copy=True)
                hosts.append(self._call({"val": on_host, STORAGES: storages(on_host)}, operator.getitem, stored, place))

    def _is_there(self, part: fx.Node, i: int) -> bool:
        """Return True if this module or the forward module computes the tensor `part` of instance i."""
        modules = (self,) if self.earlier is None else (self, self.earlier)
        return any((part, (i,)) in module.copies for module in modules)

    def _free(self, i: int) -> None:
        x = self.value[i]
        if i in self.arriving:
            self._arrive(i)
        elif self.stored.get(x) == i and self._hosts(x):
            tensor = self.copy(self.captured.tensors[x][0], {x: i})
            self.graph.call_function(leave, (tensor, self._hosts(x)[0]))

    def _hosts(self, x: int) -> list[fx.Node]:
        if x not in self.hosts and self.earlier is not None:
            self.hosts[x] = [self._receive(each) for each in self.earlier.hosts.get(x, ())]
        return self.hosts.get(x, [])

    def _call(self, meta: Mapping[str, Any], target: Any, *args: Any) -> fx.Node:
        called = self.graph.call_function(target, args)
        called.meta = dict(meta)
        return called

    def _extract_items(self, node: fx.Node, serving: Mapping[int, int]) -> None:
        for user in node.users:
            if user.target is operator.getitem:
                self.copy(user, serving)
                self._extract_items(user, serving)

    def _receive(self, copy: fx.Node) -> fx.Node:
        with self.graph.inserting_before(self._first_input()):
            received = self.graph.placeholder(copy.name)
        # FX has changed the name if another node of this module already had it.
        received.target = received.name
        received.meta = dict(copy.meta)
        self.received.append((received, copy))
        return received

    def _first_input(self) -> fx.Node:
        return next(copy for (node, _), copy in self.copies.items() if isinstance(node.meta.get("desc"), OUTSIDE))
