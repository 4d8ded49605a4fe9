"""Measures the devices of this machine through JAX or PyTorch, and prints one JSON object a line.

All devices run the same at once, as they do in a training step: cores of a CPU share its memory, and devices
beside each other share power. The first line says what the devices are, the others what was measured.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
WIDTHS = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2}

# Rows, columns and depth of products: first those that tell most, because time may end before the list.
SHAPES = [
    (512, 512, 512), (1024, 1024, 64), (1024, 1024, 1024), (128, 2048, 2048), (256, 256, 256),
    (512, 512, 4096), (2048, 2048, 2048), (1024, 1024, 256), (4096, 4096, 4096), (2048, 128, 2048),
    (2048, 2048, 128), (8192, 8192, 8192), (64, 4096, 1024), (512, 4096, 512), (4096, 4096, 64),
    (1536, 1536, 1536), (1024, 1024, 128), (4096, 512, 4096), (2048, 2048, 512), (8192, 8192, 256),
    (384, 640, 896), (4096, 4096, 1024), (1024, 4096, 1024), (256, 8192, 2048), (128, 128, 512),
]  # fmt: skip
# Bytes of an array that is read and written in place.
CHAINS = [128 * MIB, 4096, 256 * MIB, MIB, 64 * MIB, 32 * MIB, 65536, 192 * MIB, 8 * MIB, 16384, 262144, 96 * MIB]
LAUNCHES = [1, 65, 9, 33]
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"]
COLLECTIVE_BYTES = [MIB, 1024, 64 * MIB, 16 * MIB, 65536, 4 * MIB, 262144, 16384]
# A call that would take longer is left out.
LONGEST_SECONDS = 0.15


def main():
    arguments = parse()
    engine = choose(arguments)
    if engine is None:
        return
    try:
        begin = time.perf_counter()
        tell(engine, dict(kind="device", **engine.describe()))
        # Each part has until a share of the time is over.
        for share, sweep in [(0.05, launches), (0.25, chains), (0.75, products), (1.0, collectives)]:
            sweep(engine, begin + share * arguments.seconds, arguments.seconds)
        engine.close()
    finally:
        engine.end()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=["jax", "torch"])
    parser.add_argument("--devices", type=int)
    parser.add_argument("--seconds", type=float, default=45.0)
    # A process of PyTorch for one of the devices, which the first process starts.
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--meeting", default="")
    return parser.parse_args()


def choose(arguments):
    """The engine that was asked for, or the first that there is."""
    asked = [arguments.engine] if arguments.engine else ["jax", "torch"]
    for name in asked:
        if importlib.util.find_spec(name):
            return Jax(arguments) if name == "jax" else Torch(arguments)
    print(json.dumps(dict(kind="missing", engines=asked)), flush=True)
    return None


def tell(engine, line):
    if engine.rank == 0:
        print(json.dumps(line), flush=True)


def launches(engine, deadline, _seconds):
    for kernels in LAUNCHES:
        times = measure(engine, engine.launches(kernels), deadline, 0.3)
        tell(engine, dict(kind="launches", kernels=kernels, **times))


def chains(engine, deadline, seconds):
    for count, size in enumerate(CHAINS):
        # The rate of the memory needs one chain, launches were measured before.
        if count > 1 and not engine.agree(time.perf_counter() < deadline):
            break
        if size * engine.devices * 4 > engine.memory_bytes:
            continue
        times = measure(engine, engine.chain(size), deadline, seconds / 90)
        tell(engine, dict(kind="chain", bytes=2 * size, **times))


def products(engine, deadline, seconds):
    flops_per_second = {}
    for count, (rows, columns, depth) in enumerate(SHAPES):
        for dtype in engine.dtypes:
            if count > 2 and not engine.agree(time.perf_counter() < deadline):
                return
            flops = 2.0 * rows * columns * depth
            if flops > LONGEST_SECONDS * flops_per_second.get(dtype, 1e10):
                continue
            times = measure(engine, engine.product(rows, columns, depth, dtype), deadline, seconds / 200)
            shape = dict(count=1, rows=rows, columns=columns, depth=depth)
            tell(engine, dict(kind="product", dtype=dtype, **shape, **times))
            rate = flops / times["seconds"]
            flops_per_second[dtype] = max(rate, flops_per_second.get(dtype, 0.0))


def collectives(engine, deadline, seconds):
    for count, size in enumerate(COLLECTIVE_BYTES):
        for collective in COLLECTIVES:
            for devices in group_sizes(engine.devices):
                if count > 1 and not engine.agree(time.perf_counter() < deadline):
                    return
                call = engine.collective(collective, devices, size)
                if call is None:
                    continue
                times = measure(engine, call, deadline, seconds / 200)
                line = dict(kind="collective", collective=collective, devices=devices, bytes=size, **times)
                tell(engine, line)


def group_sizes(devices):
    """Powers of two, and all devices."""
    sizes = [size for size in (2, 4, 8, 16) if size < devices]
    return sizes + [devices] if devices > 1 else []


def measure(engine, call, deadline, seconds):
    """The best and the median time of a call, which is repeated for so many seconds."""
    call()
    begin = time.perf_counter()
    call()
    once = max(time.perf_counter() - begin, 1e-7)
    # Also beyond the deadline, short calls are repeated often enough to find one that nothing disturbed.
    left = min(seconds, max(deadline - time.perf_counter(), 0.03))
    repeats = engine.agree(int(min(max(left / once, 3), 500)))
    engine.meet()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    # The slowest device ends a step.
    best, median = engine.slowest([min(times), sorted(times)[len(times) // 2]])
    return dict(seconds=best, median_seconds=median, repeats=repeats)


def processor_name():
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return "cpu"


def machine_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Jax:
    """Devices of one process."""

    rank = 0

    def __init__(self, arguments):
        count = arguments.devices or min(cores(), 8)
        flag = f"--xla_force_host_platform_device_count={count}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}"
        import jax
        import numpy

        jax.config.update("jax_enable_x64", True)
        self.jax, self.numpy = jax, numpy
        self.all = jax.local_devices()[: arguments.devices]
        self.devices = len(self.all)
        if arguments.devices and arguments.devices > self.devices:
            sys.exit(f"{arguments.devices} devices were asked for, there are {self.devices}")
        self.is_cpu = self.all[0].platform == "cpu"
        stats = {} if self.is_cpu else self.all[0].memory_stats() or {}
        self.memory_bytes = stats.get("bytes_limit", machine_bytes() // self.devices)
        self.dtypes = ["f32", "bf16", "f64", "f16"] if self.is_cpu else ["bf16", "f32", "tf32", "f16"]
        self.shard_map = getattr(jax, "shard_map", None)
        if self.shard_map is None:
            from jax.experimental.shard_map import shard_map

            self.shard_map = shard_map

    def describe(self):
        first = self.all[0]
        processors = max(cores() // self.devices, 1) if self.is_cpu else getattr(first, "core_count", None)
        return dict(
            engine="jax",
            version=self.jax.__version__,
            platform=first.platform,
            name=processor_name() if self.is_cpu else first.device_kind,
            memory_bytes=self.memory_bytes,
            devices=self.devices,
            processors=processors,
        )

    def agree(self, value):
        return value

    def meet(self):
        pass

    def slowest(self, times):
        return times

    def close(self):
        pass

    def end(self):
        pass

    def spread(self, devices, body, shapes, dtype, donate, out_rows=None):
        """A call of a body on so many devices, each with arrays of the shapes of its own. What is donated is
        replaced by the result, so that nothing is allocated."""
        jax, rows = self.jax, self.jax.sharding.PartitionSpec("d")
        mesh = jax.sharding.Mesh(self.numpy.array(self.all[:devices]), ("d",))
        sharding = jax.sharding.NamedSharding(mesh, rows)
        mapped = self.shard_map(
            lambda *args: body(*(arg[0] for arg in args))[None], mesh=mesh, in_specs=rows, out_specs=rows
        )
        donated = (len(shapes) - 1,) if donate else ()
        function = jax.jit(mapped, donate_argnums=donated, keep_unused=True)
        make = jax.jit(
            lambda: tuple(jax.numpy.full((devices, *shape), 0.5, dtype) for shape in shapes), out_shardings=sharding
        )
        held = list(make())

        def call():
            result = function(*held)
            result.block_until_ready()
            if donate:
                held[-1] = result

        return call

    def launches(self, kernels):
        jax = self.jax

        def body(x):
            # Neither a barrier alone nor a rotation alone keeps every backend from fusing the steps.
            for _ in range(kernels):
                x = jax.lax.optimization_barrier(jax.numpy.roll(x, 1) * 0.9)
            return x

        return self.spread(self.devices, body, [(256,)], "float32", donate=True)

    def chain(self, size):
        return self.spread(self.devices, lambda x: x * 0.5 + 0.25, [(size // 4,)], "float32", donate=True)

    def product(self, rows, columns, depth, dtype):
        jax = self.jax
        precision = None if dtype == "tf32" else jax.lax.Precision.HIGHEST
        names = dict(f64="float64", f32="float32", tf32="float32", f16="float16", bf16="bfloat16")
        shapes = [(rows, depth), (depth, columns), (rows, columns)]

        def body(a, b, _):
            return jax.numpy.matmul(a, b, precision=precision)

        return self.spread(self.devices, body, shapes, names[dtype], donate=True)

    def collective(self, collective, devices, size):
        lax, length = self.jax.lax, size // 4
        cut = length // devices * devices
        ring = [(index, (index + 1) % devices) for index in range(devices)]
        bodies = dict(
            all_reduce=(lambda x: lax.psum(x, "d") * (1.0 / devices), length),
            all_gather=(lambda x: lax.all_gather(x, "d", tiled=True), cut // devices),
            reduce_scatter=(lambda x: lax.psum_scatter(x, "d", tiled=True), cut),
            all_to_all=(lambda x: lax.all_to_all(x, "d", 0, 0, tiled=True), cut),
            collective_permute=(lambda x: lax.ppermute(x, "d", ring), length),
        )
        body, elements = bodies[collective]
        donate = collective not in ("all_gather", "reduce_scatter")
        return self.spread(devices, body, [(elements,)], "float32", donate)


class Torch:
    """A process for each device: gloo joins those of a CPU, NCCL those of CUDA."""

    def __init__(self, arguments):
        import torch
        import torch.distributed

        self.torch, self.distributed = torch, torch.distributed
        self.is_cpu = not torch.cuda.is_available()
        there = cores() if self.is_cpu else torch.cuda.device_count()
        self.devices = arguments.devices or (min(there, 8) if self.is_cpu else there)
        self.rank = arguments.rank
        if self.devices > there and not self.is_cpu:
            sys.exit(f"{self.devices} devices were asked for, there are {there}")
        self.device = torch.device("cpu") if self.is_cpu else torch.device("cuda", self.rank)
        if self.is_cpu:
            torch.set_num_threads(max(there // self.devices, 1))
            self.memory_bytes = machine_bytes() // self.devices
        else:
            torch.cuda.set_device(self.device)
            self.memory_bytes = torch.cuda.get_device_properties(self.device).total_memory
        self.dtypes = ["f32", "bf16", "f64", "f16"] if self.is_cpu else ["bf16", "f32", "tf32", "f16"]
        self.processes, self.groups = [], {}
        if self.devices > 1:
            self.join(arguments)

    def join(self, arguments):
        from datetime import timedelta

        # Processes of one machine need no other network than its own.
        if self.is_cpu and os.path.exists("/sys/class/net/lo"):
            os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        meeting = arguments.meeting
        if self.rank == 0:
            self.folder = tempfile.TemporaryDirectory(prefix="meshwright-")
            meeting = os.path.join(self.folder.name, "meeting")
            for rank in range(1, self.devices):
                same = ["--engine", "torch", "--devices", str(self.devices), "--seconds", str(arguments.seconds)]
                own = ["--rank", str(rank), "--meeting", meeting]
                command = [sys.executable, os.path.abspath(__file__), *same, *own]
                self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        self.distributed.init_process_group(
            "gloo" if self.is_cpu else "nccl",
            init_method=f"file://{meeting}",
            rank=self.rank,
            world_size=self.devices,
            timeout=timedelta(seconds=60),
        )
        for size in group_sizes(self.devices):
            self.groups[size] = self.distributed.new_group(list(range(size)))

    def describe(self):
        if self.is_cpu:
            name, processors = processor_name(), self.torch.get_num_threads()
        else:
            properties = self.torch.cuda.get_device_properties(self.device)
            name, processors = properties.name, properties.multi_processor_count
        return dict(
            engine="torch",
            version=self.torch.__version__,
            platform="cpu" if self.is_cpu else "cuda",
            name=name,
            memory_bytes=self.memory_bytes,
            devices=self.devices,
            processors=processors,
        )

    def agree(self, value):
        """What the first process says, so that all do the same."""
        if self.devices == 1:
            return value
        told = self.torch.tensor([float(value)], dtype=self.torch.float64, device=self.device)
        self.distributed.broadcast(told, 0)
        return int(told.item())

    def meet(self):
        if self.devices > 1:
            self.distributed.barrier()

    def slowest(self, times):
        if self.devices == 1:
            return times
        told = self.torch.tensor(times, dtype=self.torch.float64, device=self.device)
        self.distributed.all_reduce(told, op=self.distributed.ReduceOp.MAX)
        return told.tolist()

    def close(self):
        if self.devices > 1:
            self.distributed.destroy_process_group()
        for process in self.processes:
            process.wait(timeout=30)

    def end(self):
        """Ends what is left of the other processes, which would wait for this one."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()

    def wait(self):
        if not self.is_cpu:
            self.torch.cuda.synchronize()

    def launches(self, kernels):
        x = self.torch.ones(256, device=self.device)

        def run():
            for _ in range(kernels):
                x.mul_(0.9)

        if self.is_cpu:
            return run
        # A graph starts its kernels without the host, whose time for each is a number of the engine.
        run()
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            run()

        def call():
            graph.replay()
            self.wait()

        return call

    def chain(self, size):
        x = self.torch.ones(size // 4, device=self.device)

        def call():
            x.mul_(0.9)
            self.wait()

        return call

    def product(self, rows, columns, depth, dtype):
        torch = self.torch
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        names = dict(f64="float64", f32="float32", tf32="float32", f16="float16", bf16="bfloat16")
        options = dict(dtype=getattr(torch, names[dtype]), device=self.device)
        a, b = torch.full((rows, depth), 0.5, **options), torch.full((depth, columns), 0.5, **options)
        c = torch.empty((rows, columns), **options)

        def call():
            torch.matmul(a, b, out=c)
            self.wait()

        return call

    def collective(self, collective, devices, size):
        dist, group = self.distributed, self.groups[devices]
        length = size // 4 // devices * devices
        whole = self.torch.ones(length, device=self.device)
        other = self.torch.ones(length, device=self.device)
        part = self.torch.ones(length // devices, device=self.device)
        to, source = (self.rank + 1) % devices, (self.rank - 1) % devices

        def permute():
            sends = [dist.P2POp(dist.isend, whole, to, group), dist.P2POp(dist.irecv, other, source, group)]
            for work in dist.batch_isend_irecv(sends):
                work.wait()

        runs = dict(
            all_reduce=lambda: dist.all_reduce(whole, dist.ReduceOp.MAX, group),
            all_gather=lambda: dist.all_gather_into_tensor(whole, part, group),
            reduce_scatter=lambda: dist.reduce_scatter_tensor(part, whole, group=group),
            all_to_all=lambda: dist.all_to_all_single(other, whole, group=group),
            collective_permute=permute,
        )
        run = runs[collective]

        def call():
            # Processes outside of the group only wait for the others.
            if self.rank < devices:
                run()
                self.wait()

        try:
            call()
        except (RuntimeError, NotImplementedError) as error:
            if "support" not in str(error) and "implement" not in str(error):
                raise
            return None
        return call


if __name__ == "__main__":
    main()
