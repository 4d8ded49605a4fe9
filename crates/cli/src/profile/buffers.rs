//! Which buffers are there at the peak.

use std::collections::BTreeMap;

use meshwright::profile::{Buffer, Class, Holds};
use meshwright::program::{OpId, Program, Type};

use super::Summary;
use crate::names::collapse;
use crate::place::{module_of, op_name, op_place, short_type};

/// Buffers that differ in the number of their layer only.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: String,
    pub(super) ty: String,
    pub(super) class: Class,
    pub(super) count: usize,
    /// Of all of them.
    pub(super) bytes: usize,
}

impl Summary<'_> {
    /// The buffers at the peak, the largest first, in the order of the program among equals.
    pub(super) fn buffers_at_peak(&self) -> Vec<&Buffer> {
        let is_there = |buffer: &&Buffer| {
            buffer.is_counted() && buffer.bytes > 0 && self.peak_step.is_none_or(|step| buffer.life.contains(&step))
        };
        let mut buffers: Vec<&Buffer> = self.profile.memory.buffers.iter().filter(is_there).collect();
        buffers.sort_by_key(|buffer| std::cmp::Reverse(buffer.bytes));
        buffers
    }

    /// The same by kind, those that take most together first.
    pub(super) fn kinds_at_peak(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Vec::new();
        let mut known: BTreeMap<(String, String, Class), usize> = BTreeMap::new();
        for buffer in self.buffers_at_peak() {
            let (name, ty) = (self.kind_name(buffer), self.buffer_type(buffer));
            let index = *known.entry((name.clone(), ty.clone(), buffer.class)).or_insert(kinds.len());
            match kinds.get_mut(index) {
                Some(kind) => {
                    kind.name = name;
                    kind.count += 1;
                    kind.bytes += buffer.bytes;
                }
                // One alone keeps its numbers.
                None => kinds.push(Kind {
                    name: self.buffer_name(buffer),
                    ty,
                    class: buffer.class,
                    count: 1,
                    bytes: buffer.bytes,
                }),
            }
        }
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.bytes));
        kinds
    }

    /// The name of an argument or result, or the op that made it and where.
    pub(super) fn buffer_name(&self, buffer: &Buffer) -> String {
        let made = |op: OpId| made_name(self.program(), op, op_place(self.program(), op));
        match buffer.holds {
            Holds::Argument(index) => self.argument_names[index].clone(),
            Holds::Result(index) => self.result_names[index].clone(),
            Holds::Copy(index) => format!("{} copy", self.argument_names[index]),
            Holds::Made(op) | Holds::Guest(op) => made(op),
            Holds::Scratch(op) => format!("{} scratch", made(op)),
        }
    }

    /// The same without the numbers of layers.
    fn kind_name(&self, buffer: &Buffer) -> String {
        let Holds::Made(op) = buffer.holds else { return collapse(&self.buffer_name(buffer)) };
        let place = match module_of(self.program(), op) {
            Some(path) => Some(path.split('.').map(without_number).collect::<Vec<_>>().join(".")),
            None => op_place(self.program(), op),
        };
        made_name(self.program(), op, place)
    }

    /// The type of what is in a buffer, where it is one value.
    pub(super) fn buffer_type(&self, buffer: &Buffer) -> String {
        let program = self.program();
        let ty = match buffer.holds {
            Holds::Argument(index) | Holds::Copy(index) => Some(program.ty(program.body().arguments[index])),
            Holds::Result(index) => Some(program.ty(program.body().results[index])),
            Holds::Made(op) | Holds::Guest(op) => self.made_type(op, buffer.bytes),
            Holds::Scratch(_) => None,
        };
        ty.map(short_type).unwrap_or_default()
    }

    /// A buffer holds the only result of an op, if in another form, or one of its results.
    fn made_type(&self, op: OpId, bytes: usize) -> Option<&Type> {
        match self.program().ops[op].results.as_slice() {
            &[value] => Some(self.program().ty(value)),
            results => results.iter().map(|&value| self.program().ty(value)).find(|ty| ty.bytes() == bytes),
        }
    }
}

fn made_name(program: &Program, op: OpId, place: Option<String>) -> String {
    let place = place.map(|place| format!("{place} ")).unwrap_or_default();
    format!("{place}{}", op_name(program, op))
}

/// Modules are numbered alike whether a number stands alone or ends their name.
fn without_number(part: &str) -> String {
    let stem = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if stem.len() < part.len() { format!("{stem}*") } else { part.to_owned() }
}
