//! ATen graphs that PyTorch ran op by op, recorded as text, become programs.
//!
//! `text.rs` is the form of the text, `table.rs` says of every ATen op what it is in ops of a program, and the files
//! beside it are what its rows call, by kind. An op without a row is a custom call that is whole on every device.

mod brackets;
mod call;
mod contract;
mod create;
mod elementwise;
mod index;
mod merged;
mod normalize;
mod pool;
mod promote;
mod reduce;
mod resample;
mod shape;
mod table;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use self::call::{Call, Made};
use self::table::ROWS;
use self::text::{Line, Node, Operand};
use super::cursor::error;
use super::diagnostic::{Diagnostic, Severity};
use super::{Imported, cursor::Parse};
use crate::codes::Code;
use crate::program::{Builder, CustomCall, Literal, Location, LocationId, Op, Type, ValueId, Values};

/// The names of the ATen ops that have rows, in the order of the alphabet.
pub fn aten_ops() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|(name, _)| *name)
}

/// Reads a recorded graph.
pub(super) fn import_aten(text: &Arc<str>) -> Imported {
    let mut graph = match Graph::new(text) {
        Ok(graph) => graph,
        Err(diagnostic) => return Imported { program: None, diagnostics: vec![*diagnostic] },
    };
    let mut position = graph.start;
    loop {
        match text::line(text, position).and_then(|found| {
            let Some((line, end)) = found else { return Ok(None) };
            graph.add(line, position..end)?;
            Ok(Some(end))
        }) {
            Ok(Some(end)) => position = end,
            Ok(None) => break,
            Err(diagnostic) => return Imported { program: None, diagnostics: vec![*diagnostic] },
        }
    }
    graph.finish()
}

struct Graph {
    text: Arc<str>,
    /// Where the lines after the first begin.
    start: usize,
    builder: Builder,
    values: FxHashMap<usize, ValueId>,
    locations: FxHashMap<usize, LocationId>,
    arguments: FxHashMap<String, usize>,
    unknown: BTreeMap<String, Unknown>,
}

/// An op without a row, or one that its row does not know in this form.
struct Unknown {
    /// How often it was met.
    count: usize,
    /// The first of its lines, and the place in the code that it came from.
    span: std::ops::Range<usize>,
    place: LocationId,
    reason: Option<String>,
}

impl Graph {
    fn new(text: &Arc<str>) -> Parse<Graph> {
        let (name, start) = text::header(text)?;
        Ok(Graph {
            text: Arc::clone(text),
            start,
            builder: Builder::new(&name),
            values: FxHashMap::default(),
            locations: FxHashMap::default(),
            arguments: FxHashMap::default(),
            unknown: BTreeMap::new(),
        })
    }

    fn add(&mut self, line: Line, span: std::ops::Range<usize>) -> Parse<()> {
        match line {
            Line::Location { number, scope, file, line } => {
                let location = Location { scope: scope.into(), file: file.into(), line, column: 0 };
                let location = self.builder.program.locations.push(location);
                self.locations.insert(number, location);
            }
            Line::Argument { value, name, ty } => {
                self.arguments.insert(name.clone(), self.builder.program.arguments.len());
                let argument = self.builder.argument(name, ty);
                self.values.insert(value, argument);
            }
            Line::Constant { value, digits, ty } => {
                let literal = Literal::hex(ty, Arc::clone(&self.text), digits.start, digits.end);
                let constant = self.builder.literal(literal);
                self.values.insert(value, constant);
            }
            Line::Result { name, value, overwrites } => {
                let result = self.builder.program.results.len();
                let value = self.value(value, &span)?;
                if let Some(&argument) = overwrites.as_ref().and_then(|name| self.arguments.get(name)) {
                    self.builder.program.arguments[argument].alias = Some(result);
                }
                self.builder.result(name, value);
            }
            Line::Node(node) => self.node(&node, &span)?,
        }
        self.builder.check().map_err(|message| error(Code::Types, span, message, ""))
    }

    fn value(&self, number: usize, span: &std::ops::Range<usize>) -> Parse<ValueId> {
        let known = self.values.get(&number).copied();
        known.ok_or_else(|| {
            error(Code::Undefined, span.clone(), format!("there is no value `%{number}` before this line"), "")
        })
    }

    fn node(&mut self, node: &Node, span: &std::ops::Range<usize>) -> Parse<()> {
        let mut missing = None;
        for operand in &node.operands {
            each_value(operand, &mut |value| {
                if !self.values.contains_key(&value) {
                    missing = missing.or(Some(value));
                }
            });
        }
        if let Some(value) = missing {
            self.value(value, span)?;
        }
        let location = self.locations.get(&node.location).copied();
        let location = location.ok_or_else(|| error(Code::Undefined, span.clone(), "its location is not known", ""))?;
        let values = &self.values;
        let row = ROWS.binary_search_by(|(name, _)| name.cmp(&node.op.as_str())).ok().map(|row| ROWS[row].1);
        let row = row.filter(|_| node.rule.is_none());
        let mut reason = None;
        let made = self.builder.located(location, |builder| -> Made {
            let mut call = Call { builder, values, node };
            match row {
                Some(row) => call.apply(row).or_else(|message| {
                    reason = Some(message);
                    call.custom()
                }),
                None => call.custom(),
            }
        });
        let made = made.map_err(|message| error(Code::Types, span.clone(), format!("`{}`: {message}", node.op), ""))?;
        self.builder
            .check()
            .map_err(|message| error(Code::Types, span.clone(), format!("`{}`: {message}", node.op), ""))?;
        if reason.is_some() || (row.is_none() && node.rule.is_none()) {
            let first = Unknown { count: 0, span: span.clone(), place: location, reason };
            self.unknown.entry(node.op.clone()).or_insert(first).count += 1;
        }
        self.take(node, &made, span)
    }

    /// Gives what a row made to the values of its node, whose types are those that PyTorch said.
    fn take(&mut self, node: &Node, made: &Values, span: &std::ops::Range<usize>) -> Parse<()> {
        if made.len() < node.values.len() {
            let message = format!("`{}` has {} results, not {}", node.op, made.len(), node.values.len());
            return Err(error(Code::Types, span.clone(), message, ""));
        }
        for ((number, ty), &value) in node.values.iter().zip(&node.types).zip(made) {
            let (Some(number), Some(ty)) = (number, ty) else { continue };
            let found = self.builder.program.ty(value);
            if found != ty {
                let message = format!("`{}` makes `{found}` here, and PyTorch says `{ty}`", node.op);
                return Err(error(Code::Types, span.clone(), message, ""));
            }
            self.values.insert(*number, value);
        }
        Ok(())
    }

    fn finish(self) -> Imported {
        let mut diagnostics: Vec<Diagnostic> = Vec::new();
        for (op, Unknown { count, span, place, reason }) in self.unknown {
            let place = &self.builder.program.locations[place];
            let place =
                if place.file.is_empty() { String::new() } else { format!(", first at {}:{}", place.file, place.line) };
            let form = reason.map_or_else(String::new, |reason| format!(" in this form ({reason})"));
            diagnostics.push(Diagnostic {
                code: Code::UnknownOp,
                severity: Severity::Warning,
                span,
                message: format!(
                    "`{op}` is not known{form}, and so it is whole on every device ({count} times{place})"
                ),
                label: String::new(),
                hint: Some("`meshwright.torch.register_rule` says how it may be cut".to_owned()),
            });
        }
        match self.builder.finish() {
            Ok(program) => Imported { program: Some(program.compact()), diagnostics },
            Err(message) => {
                diagnostics.push(*error(Code::Types, 0..0, message, ""));
                Imported { program: None, diagnostics }
            }
        }
    }
}

fn each_value(operand: &Operand, visit: &mut impl FnMut(usize)) {
    match operand {
        Operand::Value(value) => visit(*value),
        Operand::List(list) => list.iter().for_each(|operand| each_value(operand, visit)),
        _ => {}
    }
}

impl Call<'_> {
    /// A call of something that is not known, of all the tensors that it reads.
    fn custom(&mut self) -> Made {
        let mut operands = Vec::new();
        for operand in &self.node.operands {
            each_value(operand, &mut |value| operands.extend(self.values.get(&value).copied()));
        }
        let result_types: Vec<Type> = self.node.types.iter().flatten().cloned().collect();
        let call = CustomCall {
            target: self.node.op.clone(),
            has_side_effect: false,
            result_types,
            attributes: self.written().unwrap_or_default(),
            rule: self.node.rule.clone(),
        };
        let made = self.builder.op(Op::CustomCall(Box::new(call)), &operands, &[]);
        let mut made = made.into_iter();
        let stand_in = operands.first().copied();
        let values = self.node.types.iter().map(|ty| if ty.is_some() { made.next() } else { stand_in });
        values.collect::<Option<Values>>().ok_or_else(|| "it has neither operands nor results".to_owned())
    }

    /// What PyTorch needs besides tensors to make the call: all arguments as Python has them, tensors by their number, as
    /// `"{0}, [1, 2], True"`, and which results are tensors, as `"0, 2,"`. None where a text would have to be quoted.
    fn written(&self) -> Option<Vec<(String, String)>> {
        let mut count = 0;
        let texts: Option<Vec<String>> =
            self.node.operands.iter().map(|each| self.argument(each, &mut count)).collect();
        let there = self.node.types.iter().enumerate().filter(|(_, ty)| ty.is_some());
        let numbers: Vec<String> = there.map(|(number, _)| format!("{number},")).collect();
        let quoted = |name: &str, texts: &[String], between| (name.to_owned(), format!("\"{}\"", texts.join(between)));
        Some(vec![quoted("arguments", &texts?, ", "), quoted("results", &numbers, " ")])
    }

    fn argument(&self, operand: &Operand, count: &mut usize) -> Option<String> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.,> ".contains(letter);
        Some(match operand {
            Operand::Value(value) if self.values.contains_key(value) => {
                *count += 1;
                format!("{{{}}}", *count - 1)
            }
            Operand::Value(_) | Operand::None => "None".to_owned(),
            Operand::Bool(is_true) => if *is_true { "True" } else { "False" }.to_owned(),
            Operand::Int(number) => number.to_string(),
            Operand::Float(number) if number.is_nan() => "nan".to_owned(),
            Operand::Float(number) => format!("{number:?}"),
            Operand::Complex(real, imaginary) => format!("complex({real:?}, {imaginary:?})"),
            Operand::Text(text) if text.chars().all(is_plain) => format!("'{text}'"),
            Operand::Text(_) => return None,
            Operand::DType(dtype) => format!("dtype('{dtype}')"),
            Operand::List(list) => {
                let texts: Option<Vec<String>> = list.iter().map(|inner| self.argument(inner, count)).collect();
                format!("[{}]", texts?.join(", "))
            }
        })
    }
}
