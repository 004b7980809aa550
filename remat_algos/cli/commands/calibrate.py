"""remat calibrate: measure the speed of this machine."""

import argparse
import shlex
from typing import Any

from remat_algos.cli.output import print_result, print_text
from remat_algos.cli.shared_options import add
from remat_algos.cost.calibration import calibrate
from remat_algos.result import Summary
from remat_algos.wording import format_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, output="write the measurements as JSON")
    backends = "numpy: the CPU (default); cupy: the GPU"
    parser.add_argument("--backend", choices=("numpy", "cupy"), default="numpy", help=backends)
    dtypes = "measure matrix products of this type in addition to float32: float64 or float16"
    parser.add_argument("--dtype", metavar="TYPE", default="float32", help=dtypes)


def run(arguments: argparse.Namespace) -> None:
    device = calibrate(dtype=arguments.dtype, backend=arguments.backend)
    if arguments.output is not None:
        device.save(arguments.output)
    rows = [*_rows(device), *([] if arguments.output is None else [("written", arguments.output)])]
    print_result(arguments, Summary(device.record(), rows), **_nanoseconds(device), written=arguments.output)
    if arguments.output is None:
        print_text("to use these figures, write them to a file: remat calibrate -o my_device.json")
    else:
        print_text(f"use it     remat show {shlex.quote(f'model:resnet50?cost=measured&device={arguments.output}')}")


def _nanoseconds(device: Any) -> dict[str, Any]:
    return {
        "ns_per_flop": {dtype: 1e9 / rate for dtype, rate in device.flops.items()},
        "ns_per_byte": 1e9 / device.bandwidth,
        "ns_per_launch": 1e9 * device.launch,
    }


def _rows(device: Any) -> list[tuple[str, str]]:
    rates = [
        (dtype, f"{rate / 1e9:,.1f} GFLOP/s in matrix products, {1e9 / rate:.3g} ns per FLOP")
        for dtype, rate in device.flops.items()
    ]
    rows = [
        ("device", device.name),
        *rates,
        ("bandwidth", f"{format_bytes(round(device.bandwidth))}/s, {1e9 / device.bandwidth:.3g} ns per byte"),
        ("launch", f"{1e6 * device.launch:,.2f} us"),
    ]
    if (link := device.link) is not None:
        out, into = (f"{rate / 1e9:,.1f} GB/s" for rate in (link.out, link.into))
        rows.append(("link", f"{out} out, {into} into, {1e6 * link.latency:,.2f} us a copy"))
    return [*rows, ("memory", format_bytes(device.memory)), ("source", device.source)]
