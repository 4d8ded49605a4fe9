//! The reference of how ops are cut, written from the rules of example programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{env, fs};

use meshwright::import::import;
use meshwright::program::Program;
use meshwright::shard::{Layout, Mesh};

const HEAD: &str = "# How ops are cut

This page is made from the rules of the programs in `tests/rules`.

A rule names the dimensions of an op's operands and results by factors, like an einsum. Cutting a factor
cuts every dimension it stands in: in `([i, k], [k, j]) -> ([i, j])`, cutting `i` cuts the rows of the first
operand and of the result. A dimension of several factors, such as `ij`, has the first as its outer part.
`_` is a dimension that stays whole.

- `sum={k}`: where `k` is cut, results that lack it are partial: the result is the sum of what devices have.
  So for `max`, `min`, `and`, `or` and `product`.
- `whole={k}`: `k` cannot be cut.
- `even={k}`: `k` can only be cut into equal parts. All other factors are padded where they do not divide,
  unless they share a dimension with others.

Where an op *carries* a partial operand, its result is partial instead, and the reduction comes later: `sum {0}`
says that operand 0 alone may be partial under a sum, `sum {0, 1}` that both may be together, `any` that any
reduction will do.
";

/// What a rule does not say, by op.
const REMARKS: [(&str, &str); 14] = [
    ("chlo.top_k", "whole along the last dimension"),
    ("meshwright.attention", "queries that are cut say in a bias which keys they see, where it is causal"),
    (
        "meshwright.attention_grad",
        "whole queries where it is causal and gives the gradient of a bias that lacks queries or keys",
    ),
    ("stablehlo.batch_norm_grad", "written out in smaller ops first, so that batches can be cut"),
    ("stablehlo.batch_norm_training", "written out in smaller ops first, so that batches can be cut"),
    ("stablehlo.constant", "made anew wherever it is used"),
    ("stablehlo.gather", "a device looks up what it has and gives zeros for the rest"),
    ("stablehlo.iota", "made anew wherever it is used"),
    ("stablehlo.map", "as every elementwise op"),
    ("stablehlo.power", "as every elementwise op of two operands but those with a row of their own"),
    ("stablehlo.rng_bit_generator", "computed whole, so that every device draws the same numbers"),
    ("stablehlo.scatter", "a device writes what falls into its part"),
    ("stablehlo.sort", "whole along the dimension that is sorted"),
    ("stablehlo.tanh", "as every elementwise op of one operand but those with a row of their own"),
];

const TAIL: &str = "
## Ops that pass values on

`case`, `if`, `optimization_barrier` and `while` have no rule: what they pass on lies as it did before, and what
a loop carries lies the same in every trip.

## Ops that are never cut

Collectives, `check`, `infeed`, `outfeed`, `partition_id`, `recv`, `replica_id`, `rng`, `send` and tokens. A
`custom_call` is cut where it has a rule.
";

/// `docs/reference/ops.md` says what the rules say. `BLESS=1` writes it anew.
#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/ops.md");
    let expected = reference();
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &expected).expect("the reference can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "docs/reference/ops.md is out of date, run the tests with BLESS=1");
}

fn reference() -> String {
    let mut rows: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for program in examples() {
        add_rows(&mut rows, &program);
    }
    for (name, _) in REMARKS {
        assert!(rows.contains_key(name), "no example has `{name}`");
    }
    let mut text = format!("{HEAD}\n| op | rule | carries | remark |\n| -- | ---- | ------- | ------ |\n");
    for (name, rules) in rows {
        let remark = REMARKS.iter().find(|(op, _)| *op == name).map_or("", |(_, remark)| remark);
        for (index, (rule, carries)) in rules.into_iter().enumerate() {
            let remark = if index == 0 { remark } else { "" };
            let line = format!("| `{name}` | `{rule}` | {carries} | {remark} |");
            // Empty cells are one space wide.
            let _ = writeln!(text, "{}", line.replace("|  |", "| |").replace("|  |", "| |"));
        }
    }
    text + TAIL
}

/// Adds the rules of a program's ops, each once.
fn add_rows(rows: &mut BTreeMap<String, Vec<(String, String)>>, program: &Program) {
    let layout = Layout::new(program, Mesh::parse("a=1").expect("the mesh is sound"));
    for &op in layout.ops() {
        let rule = layout.rule(op);
        // A scalar has nothing to cut and says nothing.
        if rule.tensors().flatten().next().is_none() {
            continue;
        }
        let carries: Vec<String> = rule.carries.iter().map(|carry| format!("`{carry}`")).collect();
        let row = (rule.to_string(), carries.join(", "));
        let known = rows.entry(program.ops[op].op.name().to_owned()).or_default();
        if !known.contains(&row) {
            known.push(row);
        }
    }
}

/// The programs of `tests/rules`.
fn examples() -> Vec<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/rules");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("the folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
        .collect();
    paths.sort();
    let read = |path: &PathBuf| fs::read_to_string(path).expect("the example can be read");
    paths.iter().map(|path| import(&Arc::from(read(path))).program.expect("the example is sound")).collect()
}
