"""Times jaxlib's own parser, verification included, on the texts that the importer is timed on.

    parse.py prepare SAMPLE.mlir.gz FOLDER    writes the sample with and without locations
    parse.py time FILE                        prints the least seconds of several rounds
"""

import gzip
import pathlib
import sys
import time

from jax._src.interpreters import mlir
from jaxlib.mlir import ir

ROUNDS = 5


def prepare(sample: str, folder: str) -> None:
    text = gzip.decompress(pathlib.Path(sample).read_bytes()).decode()
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        plain = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=False)
    pathlib.Path(folder, "with locations.mlir").write_text(text)
    pathlib.Path(folder, "without locations.mlir").write_text(plain)


def measure(path: str) -> float:
    text = pathlib.Path(path).read_text()
    best = float("inf")
    for _ in range(ROUNDS):
        # A fresh context, as a fresh process would have: attributes of the last round are not reused.
        with mlir.make_ir_context():
            start = time.perf_counter()
            ir.Module.parse(text)
            best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare", sample, folder]:
            prepare(sample, folder)
        case ["time", path]:
            print(measure(path))
        case _:
            sys.exit(__doc__)
