//! How to know a program again, and what is different where it is another.

use meshwright::program::{Id, Program};

use super::file::{ArgumentPart, ModelPart};
use crate::names::names;
use crate::place::{module_of, op_name};
use crate::table::{count, counted};

/// What tells programs apart: their texts, without where ops came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) whole: String,
    /// Four digits of every op of the body.
    pub(super) ops: Vec<String>,
}

impl Fingerprint {
    pub(super) fn new(program: &Program) -> Fingerprint {
        let text = program.to_string();
        let arguments = names("argument", program.arguments.iter().map(|argument| argument.name.as_str()));
        let (mut ops, mut own): (Vec<u64>, usize) = (Vec::new(), 0);
        for inside in text.lines().filter_map(|line| line.strip_prefix(BODY)) {
            // What stands deeper is inside of an op.
            if !inside.starts_with([' ', '}', ')', '^']) {
                ops.push(START);
                own = value_number(inside).map_or(own, |(number, _)| number);
            }
            if let Some(digest) = ops.last_mut() {
                *digest = hashed(*digest, relative(inside, &arguments, own).as_bytes());
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

/// A line with arguments by their names and other values by how far before the op they are made, so that one more
/// value somewhere does not change all that follows.
fn relative(line: &str, arguments: &[String], own: usize) -> String {
    let mut pieces = line.split('%');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        text.push('%');
        match value_number(&format!("%{piece}")) {
            Some((number, digits)) => {
                match arguments.get(number) {
                    Some(name) => text.push_str(name),
                    None => text.push_str(&(own as i64 - number as i64).to_string()),
                }
                text.push_str(&piece[digits..]);
            }
            None => text.push_str(piece),
        }
    }
    text
}

/// The number of the value that a text begins with, and how many digits it has.
fn value_number(text: &str) -> Option<(usize, usize)> {
    let rest = text.strip_prefix('%')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    Some((rest[..digits].parse().ok()?, digits))
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
pub(super) fn differences(model: &ModelPart, arguments: &[ArgumentPart], program: &Program) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use meshwright::models::Model;

    use super::*;

    fn program(settings: &[(&str, &str)]) -> Program {
        let mut model = Model::preset("mlp").expect("a preset");
        settings.iter().for_each(|(key, value)| model.set(key, value).expect("a setting"));
        model.build().expect("a model")
    }

    #[test]
    fn every_op_has_a_digest_that_does_not_depend_on_what_is_before() {
        let [two, three] = ["2", "3"].map(|layers| program(&[("layers", layers), ("hidden", "8"), ("batch", "4")]));
        let [short, long] = [&two, &three].map(Fingerprint::new);
        assert_eq!((short.ops.len(), long.ops.len()), (two.body().ops.len(), three.body().ops.len()));
        assert_ne!(short.whole, long.whole);
        // The first layer is the same in both, the loss is not where it was.
        let same = short.ops.iter().zip(&long.ops).take_while(|(left, right)| left == right).count();
        assert!((3..short.ops.len() / 2).contains(&same), "{same} of {} ops", short.ops.len());
        assert_eq!(Fingerprint::new(&two), short);
    }
}
