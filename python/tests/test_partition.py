"""Partitioned samples on eight devices, compiled and run by stock XLA.

They have to compute what a single device computes, and to contain exactly the collectives that the
compiler wrote: no more, no fewer, none of another size.
"""

import concurrent.futures
import functools
import gzip
import json
import multiprocessing
import os
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import devices
from schedules import SCHEDULES, WEIGHTS, schedule

SAMPLES = Path(__file__).parents[2] / "tests" / "samples"
EVERYTHING = "data, megatron and zero3"
# Every sample in the way that makes the most collectives, and one sample in every way.
CASES = [(sample, EVERYTHING) for sample in WEIGHTS if sample != "gpt32"]
CASES += [("gpt", name) for name in SCHEDULES if name != EVERYTHING]
CASES += [(sample, "accumulation") for sample in ("gpt_dropout", "gpt_scan_remat", "llama_bf16", "moe_sort", "resnet")]
if os.environ.get("LONG"):
    CASES = [(sample, name) for sample in WEIGHTS if sample != "gpt32" for name in SCHEDULES]
CASES += [("moe_einsum", "experts"), ("moe_sort", "experts"), ("gpt", "split")]

# Largest difference over the largest number of a result. A device rounds its part of a sum to the
# type of the sum before the parts are added, so narrow types differ more than on a single device.
TOLERANCES = {"llama_bf16": 1e-2, "attention_cudnn": 4e-3}
DTYPES = {"BF16": ml_dtypes.bfloat16, "BOOL": bool, "F16": np.float16, "F32": np.float32, "I32": np.int32, "U32": np.uint32}


@pytest.fixture(scope="module")
def eight_devices():
    """Calls functions in a process that has eight devices; this one keeps what it has."""
    flags = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = f"{flags or ''} --xla_force_host_platform_device_count=8"
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        pool.submit(os.getpid).result()
        if flags is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = flags
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


def partition(model, mesh, steps):
    """The StableHLO of a model partitioned over a mesh, step by step."""
    command = [os.environ["MESHWRIGHT"], "partition", model, "--mesh", mesh, "--tactics", "-", "--emit", "stablehlo"]
    tactics = "".join(f"[[tactic]]\n{toml(step)}" for step in steps)
    done = subprocess.run(command, input=tactics, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def toml(table):
    return "".join(f"{key} = {inline(value)}\n" for key, value in table.items())


def inline(value):
    # TOML writes numbers, strings and lists as JSON does.
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{ " + ", ".join(f"{json.dumps(key)} = {inline(entry)}" for key, entry in value.items()) + " }"


def read_tensors(path):
    """A safetensors file; the package's reader for numpy knows no bfloat16."""
    contents = gzip.decompress(path.read_bytes())
    start = 8 + int.from_bytes(contents[:8], "little")
    tensors = {}
    for name, entry in json.loads(contents[8:start]).items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensors[name] = np.frombuffer(contents[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def numbered(tensors, kind):
    count = sum(name.startswith(f"{kind}.") for name in tensors)
    return [tensors[f"{kind}.{index}"] for index in range(count)]


@functools.cache
def outcome(eight_devices, sample, name):
    text = partition(SAMPLES / f"{sample}.mlir.gz", *schedule(name, sample))
    tensors = read_tensors(SAMPLES / f"{sample}.safetensors.gz")
    expected = numbered(tensors, "result")
    return expected, *eight_devices(devices.run, text, numbered(tensors, "argument"))


def difference(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    if expected.dtype.kind in "iub":
        return float((found != expected).any())
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    largest = max(np.abs(expected).max(initial=0), np.finfo(np.float64).tiny)
    return np.abs(found - expected).max(initial=0) / largest


@pytest.mark.parametrize("sample, name", CASES)
def test_devices_together_compute_what_one_computes(eight_devices, sample, name):
    expected, found, _, _ = outcome(eight_devices, sample, name)
    assert len(found) == len(expected)
    for index, pair in enumerate(zip(found, expected)):
        assert difference(*pair) <= TOLERANCES.get(sample, 1e-5), f"result {index}"


@pytest.mark.parametrize("sample, name", CASES)
def test_collectives_are_those_that_were_written(eight_devices, sample, name):
    _, _, written, compiled = outcome(eight_devices, sample, name)
    assert written
    assert compiled - written == {}, "XLA added collectives"
    assert written - compiled == {}, "XLA removed collectives"


def test_a_single_device_runs_the_whole_program(eight_devices):
    tensors = read_tensors(SAMPLES / "gpt.safetensors.gz")
    text = partition(SAMPLES / "gpt.mlir.gz", "one=1", [{"axis": "one", "tile": {"batch.**": 0}}])
    found, written, compiled = eight_devices(devices.run, text, numbered(tensors, "argument"))
    assert not written and not compiled
    for pair in zip(found, numbered(tensors, "result")):
        assert difference(*pair) <= 1e-5


def test_donated_arguments_are_reused(eight_devices):
    text = partition(SAMPLES / "gpt.mlir.gz", *schedule(EVERYTHING, "gpt"))
    aliases = eight_devices(devices.aliases, text)
    assert aliases == text.count("tf.aliasing_output") > 0
