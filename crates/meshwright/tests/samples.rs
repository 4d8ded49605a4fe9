//! Whole training steps exported from JAX: imported, verified, printed and read again, unrolled, and
//! evaluated on inputs whose results JAX computed.

mod common;

use std::path::Path;

use common::{import_text, read_gzip};
use libtest_mimic::{Arguments, Failed, Trial};
use meshwright::interpret::{Data, Options, Tensor, evaluate};
use meshwright::program::{AttentionForm, DType, PrintOptions, Program, Type, expand_attention, print};
use safetensors::SafeTensors;

fn main() {
    let arguments = Arguments::from_args();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/samples");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .expect("the samples are there")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".mlir.gz")?.to_owned()))
        .collect();
    names.sort();
    let trials = names.into_iter().flat_map(|name| {
        let path = folder.join(format!("{name}.mlir.gz"));
        let values = folder.join(format!("{}.safetensors.gz", name.trim_end_matches(".pretty")));
        let structure = Trial::test(format!("{name}::prints_and_reads_back"), {
            let path = path.clone();
            move || check_structure(&path)
        });
        let numbers = Trial::test(format!("{name}::computes_what_jax_computes"), {
            let (path, values) = (path.clone(), values.clone());
            move || check_numbers(&path, &values, |program| Ok(program.clone()))
        });
        let unrolled = Trial::test(format!("{name}::computes_the_same_unrolled"), {
            let (path, values) = (path.clone(), values.clone());
            move || check_numbers(&path, &values, Program::unroll)
        });
        let expanded = Trial::test(format!("{name}::computes_the_same_with_attention_expanded"), {
            let (path, values) = (path.clone(), values.clone());
            move || check_numbers(&path, &values, |program| Ok(expand_attention(program).into_owned()))
        });
        if values.exists() { vec![structure, numbers, unrolled, expanded] } else { vec![structure] }
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn read_program(path: &Path) -> Result<Program, String> {
    let bytes = read_gzip(path)?;
    import_text(std::str::from_utf8(&bytes).map_err(|error| error.to_string())?)
}

fn check_structure(path: &Path) -> Result<(), Failed> {
    let program = read_program(path)?;
    program.verify()?;
    for locations in [true, false] {
        let text = print(&program, PrintOptions { locations, attention: AttentionForm::CustomCall });
        let again = import_text(&text)?;
        if locations && again != program {
            return Err("printing and reading gives another program".into());
        }
        if again.to_string() != program.to_string() {
            return Err("printing and reading gives another text".into());
        }
    }
    let unrolled = program.unroll()?;
    unrolled.verify()?;
    if unrolled.ops.ids().any(|op| unrolled.counted_loop(op).is_some()) {
        return Err("a counted loop is left after unrolling".into());
    }
    Ok(())
}

/// Largest difference from JAX, relative to the largest number of a result. XLA sums in another
/// order, so a few units in the last place of the largest number remain.
fn tolerance(program: &Program) -> f64 {
    let has = |dtype: DType| program.values.iter().any(|(_, value)| value.ty.dtype == dtype);
    // What is rounded to a narrow type on the way differs by the rounding of that type.
    if has(DType::BF16) {
        4e-3
    } else if has(DType::F16) {
        2e-3
    } else {
        1e-5
    }
}

fn check_numbers(
    path: &Path,
    values: &Path,
    change: impl Fn(&Program) -> Result<Program, String>,
) -> Result<(), Failed> {
    let program = change(&read_program(path)?)?;
    let bytes = read_gzip(values)?;
    let tensors = SafeTensors::deserialize(&bytes)?;
    let tensor = |name: String, ty: &Type| -> Result<Tensor, String> {
        let view = tensors.tensor(&name).map_err(|error| error.to_string())?;
        Tensor::from_bytes(ty.clone(), view.data()).ok_or_else(|| format!("`{name}` is not a `{ty}`"))
    };
    let body = program.body();
    let arguments = body.arguments.iter().enumerate();
    let arguments: Vec<Tensor> = arguments
        .map(|(index, &value)| tensor(format!("argument.{index}"), program.ty(value)))
        .collect::<Result<_, _>>()?;
    let evaluation = evaluate(&program, &arguments, Options { wide: false }).map_err(|error| error.message)?;
    let limit = tolerance(&program);
    let mut problems = Vec::new();
    for (index, result) in evaluation.results.iter().enumerate() {
        let expected = tensor(format!("result.{index}"), &result.ty)?;
        let difference = relative_difference(result, &expected);
        if difference.is_nan() || difference > limit {
            problems.push(format!("result {index} `{}` differs by {difference:e}", program.results[index].name));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

/// Of floats, the largest difference over the largest number; of integers, whether they differ.
fn relative_difference(left: &Tensor, right: &Tensor) -> f64 {
    match (&left.data, &right.data) {
        (Data::Float(left), Data::Float(right)) => {
            let largest = right.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
            left.iter().zip(right).map(|(a, b)| (a - b).abs() / largest).fold(0.0, f64::max)
        }
        (left, right) => f64::from(u8::from(left != right)),
    }
}
