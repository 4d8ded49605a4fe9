"""The solver beside an exact MILP: medium random instances have the same least cost."""

import json
import random

import highspy
import pytest


@pytest.mark.parametrize("seed", range(6))
def test_medium_instances_are_solved_like_a_milp(seed, meshwright, tmp_path):
    problem = random_problem(random.Random(seed))
    path = tmp_path / "instance.json"
    path.write_text(json.dumps({"problem": problem}))
    answer = json.loads(meshwright("solve", path, "--json", "--time", 60))
    assert answer["cost"] == milp(problem)
    assert answer["lower_bound"] <= answer["cost"]


def random_problem(rng):
    count = rng.randint(40, 200)
    sizes = [rng.randint(1, 5) for _ in range(count)]
    starts = [rng.randint(0, count) for _ in range(count)]
    edges = [(node, rng.randint(max(0, node - 6), node - 1)) for node in range(1, count)]
    edges += [(node, node - 1) for node in range(1, count) if rng.random() < 0.3 and (node, node - 1) not in edges]
    cost = lambda: 10**18 if rng.random() < 0.05 else rng.randint(0, 100)
    usages = [[rng.randint(1, 20) for _ in range(size)] for size in sizes]
    intervals = [[start, start + rng.randint(1, 20)] for start in starts]
    peak = max(
        sum(min(usage) for usage, (start, end) in zip(usages, intervals) if start <= time < end)
        for time in range(count + 20)
    )
    return {
        "name": "random",
        "nodes": {
            "intervals": intervals,
            "costs": [[rng.randint(0, 100) for _ in range(size)] for size in sizes],
            "usages": usages,
        },
        "edges": {
            "nodes": [list(edge) for edge in edges],
            "costs": [[cost() for _ in range(sizes[first] * sizes[second])] for first, second in edges],
        },
        "usage_limit": int(1.4 * peak) + 1,
    }


def milp(problem):
    """The least cost by HiGHS: a variable for each alternative and each combination of an edge."""
    highs = highspy.Highs()
    highs.silent()
    highs.setOptionValue("mip_rel_gap", 0.0)
    nodes, edges = problem["nodes"], problem["edges"]
    chosen = [[highs.addBinary(obj=cost) for cost in costs] for costs in nodes["costs"]]
    for labels in chosen:
        highs.addConstr(sum(labels) == 1)
    for (first, second), costs in zip(edges["nodes"], edges["costs"]):
        columns = len(chosen[second])
        pairs = [highs.addVariable(lb=0, ub=0 if cost >= 10**18 else 1, obj=min(cost, 10**6)) for cost in costs]
        for row, label in enumerate(chosen[first]):
            highs.addConstr(sum(pairs[row * columns : (row + 1) * columns]) == label)
        for column, label in enumerate(chosen[second]):
            highs.addConstr(sum(pairs[column::columns]) == label)
    for time in sorted({start for start, _ in nodes["intervals"]}):
        alive = [node for node, (start, end) in enumerate(nodes["intervals"]) if start <= time < end]
        used = [amount * label for node in alive for amount, label in zip(nodes["usages"][node], chosen[node])]
        highs.addConstr(sum(used) <= problem["usage_limit"])
    highs.minimize()
    return round(highs.getInfo().objective_function_value)
