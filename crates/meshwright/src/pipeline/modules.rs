//! What chunks are made of, in the words of the model.

use super::assign::Assignment;
use crate::program::{Id, Program};

/// For every chunk, the modules of its forward pass in order: the first, and the last after an ellipsis where
/// there are more than two.
pub(super) fn chunk_modules(
    program: &Program,
    is_forward: impl Fn(crate::program::OpId) -> bool,
    assignment: &Assignment,
    chunk_count: usize,
) -> Vec<String> {
    let mut modules: Vec<Vec<String>> = vec![Vec::new(); chunk_count];
    for &op in program.body().ops.iter().filter(|&&op| is_forward(op)) {
        let (&[chunk], Some(name)) = (assignment.chunks[op.index()].as_slice(), module(program, op)) else { continue };
        if !modules[chunk].contains(&name) {
            modules[chunk].push(name);
        }
    }
    let describe = |names: Vec<String>| match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first, last] => format!("{first}, {last}"),
        [first, .., last] => format!("{first} … {last}"),
    };
    modules.into_iter().map(describe).collect()
}

/// The module around an op, down to its number: of `layers/0/attn` that is `layers/0`.
fn module(program: &Program, op: crate::program::OpId) -> Option<String> {
    let modules = program.locations[program.ops[op].location].modules();
    let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
    let length = match modules.iter().position(is_number) {
        Some(first) => first + modules[first..].iter().take_while(|part| is_number(part)).count(),
        None => 1,
    };
    let module = modules.get(..length)?.join("/");
    (!module.is_empty()).then_some(module)
}
