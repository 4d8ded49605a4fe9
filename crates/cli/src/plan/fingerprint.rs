//! How to know a program again, and what is different where it is another.

use meshwright::program::{Id, Program};

use super::file::{ArgumentPart, ModelPart};
use crate::place::{module_of, op_name};
use crate::table::{count, counted};
use crate::tensors::names;

/// What tells programs apart: their texts, without where ops came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub(crate) whole: String,
    /// Four digits of every op of the body.
    pub(crate) ops: Vec<String>,
}

impl Fingerprint {
    pub(crate) fn new(program: &Program) -> Fingerprint {
        let text = program.to_string();
        let mut ops: Vec<u64> = Vec::new();
        for line in text.lines() {
            // What stands deeper is inside of an op.
            let inside = line.strip_prefix(BODY);
            let is_start = inside.is_some_and(|line| !line.starts_with([' ', '}', ')', '^']));
            if is_start {
                ops.push(START);
            }
            if let (Some(digest), Some(inside)) = (ops.last_mut(), inside) {
                *digest = hashed(*digest, inside.as_bytes());
            }
        }
        ops.truncate(program.body().ops.len());
        let short = |digest: u64| format!("{:04x}", (digest ^ digest >> 32) & 0xffff);
        Fingerprint {
            whole: format!("{:016x}", hashed(START, text.as_bytes())),
            ops: ops.into_iter().map(short).collect(),
        }
    }
}

/// How far the body of a program is indented.
const BODY: &str = "    ";

/// FNV-1a: the same everywhere and for ever.
fn hashed(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Differences that are told, of each kind.
const TOLD: usize = 3;

/// What is different in a program from the one that was planned; nothing where it is the same.
pub(crate) fn differences(model: &ModelPart, arguments: &[ArgumentPart], program: &Program) -> Vec<String> {
    let found = Fingerprint::new(program);
    if found.whole == model.fingerprint {
        return Vec::new();
    }
    let mut told = Vec::new();
    if found.ops.len() != model.ops {
        told.push(format!("it has {}, the plan is for {}", counted(found.ops.len(), "op"), count(model.ops)));
    }
    tell_arguments(arguments, program, &mut told);
    let digest = |index: usize| model.op_digests.get(4 * index..4 * index + 4);
    let first = (0..found.ops.len()).find(|&index| digest(index) != Some(&*found.ops[index]));
    if let Some(op) = first.and_then(|index| program.body().ops.get(index)) {
        let place = module_of(program, *op).map(|module| format!(" in `{module}`")).unwrap_or_default();
        told.push(format!("the first op that differs is number {}, `{}`{place}", op.index(), op_name(program, *op)));
    }
    if told.is_empty() {
        told.push("what is around its ops differs".to_owned());
    }
    told
}

fn tell_arguments(planned: &[ArgumentPart], program: &Program, told: &mut Vec<String>) {
    let names = names("argument", program.arguments.iter().map(|argument| argument.name.as_str()));
    let mut differ: Vec<String> = Vec::new();
    for (name, &value) in names.iter().zip(&program.body().arguments) {
        let ty = program.ty(value).to_string();
        match planned.iter().find(|argument| argument.name == *name) {
            Some(argument) if argument.ty == ty => {}
            Some(argument) => differ.push(format!("`{name}` is `{ty}`, was `{}`", argument.ty)),
            None => differ.push(format!("`{name}` is new")),
        }
    }
    let gone = planned.iter().filter(|argument| !names.contains(&argument.name));
    differ.extend(gone.map(|argument| format!("`{}` is gone", argument.name)));
    let more = differ.len().saturating_sub(TOLD);
    differ.truncate(TOLD);
    told.extend(differ);
    if more > 0 {
        told.push(format!("{} more differ", counted(more, "argument")));
    }
}
