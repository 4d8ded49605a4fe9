//! Functions, loops and branches of the source, and when values are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use rustc_hash::{FxHashMap, FxHashSet};

use super::combine::combined;
use super::experts::{experts, with_experts};
use super::ledger::Ledger;
use super::parts::{Part, roots};
use super::reuse::reused;
use super::table::{expression, together};
use super::values::{Form, forms, name};
use crate::program::{Binary, DType, Definition, Id, Op, OpId, Program, RegionId, ValueId};

/// After which op of a function which arguments are overwritten by which values.
type Writes = BTreeMap<usize, Vec<(ValueId, ValueId)>>;

/// A source in the middle of being written.
pub(super) struct Writer<'p> {
    pub(super) program: &'p Program,
    forms: Vec<Form>,
    /// Groups of devices that collectives are between, each once.
    groups: Vec<Vec<Vec<i64>>>,
    /// Constants that are no single number: type, shape and bytes.
    constants: Vec<String>,
    /// Operands that results take the places of.
    reused: FxHashMap<OpId, ValueId>,
    /// What is in memory meanwhile.
    pub(super) ledger: Ledger<'p>,
    lines: String,
    indent: usize,
    /// Where the last op came from, which is told where it changes.
    place: String,
}

impl<'p> Writer<'p> {
    pub(super) fn new(program: &'p Program) -> Writer<'p> {
        let (groups, constants) = (Vec::new(), Vec::new());
        Writer {
            program,
            forms: forms(program),
            groups,
            constants,
            reused: FxHashMap::default(),
            ledger: Ledger::new(program),
            lines: String::new(),
            indent: 0,
            place: String::new(),
        }
    }

    /// The functions behind what they share.
    pub(super) fn finish(self) -> String {
        let mut text = String::from(
            "# Written by Meshwright: what each device runs. Names that are not defined here are those of\n",
        );
        text.push_str("# `meshwright.torch.ops`, and `rank`, `device`, `groups`, `constants` and `chance`.\n\n");
        let groups: Vec<String> = self.groups.iter().map(|groups| format!("    {groups:?},\n")).collect();
        let _ = writeln!(text, "GROUPS = [\n{}]", groups.concat());
        let _ = writeln!(text, "CONSTANTS = [\n{}]", self.constants.concat());
        text + &self.lines
    }

    pub(super) fn forms(&self) -> &[Form] {
        &self.forms
    }

    pub(super) fn form(&self, value: ValueId) -> &Form {
        &self.forms[value.index()]
    }

    /// A value where a tensor must stand.
    pub(super) fn tensor(&self, value: ValueId) -> String {
        match self.form(value) {
            Form::Tensor => name(value),
            Form::Number { text, .. } => self.full(value, text),
        }
    }

    fn full(&self, value: ValueId, text: &str) -> String {
        let ty = self.program.ty(value);
        let dtype = super::table::dtype(ty.dtype).unwrap_or("torch.float32");
        format!("torch.full({}, {text}, dtype={dtype}, device=device)", tuple(&ty.shape))
    }

    /// A value where a number will do.
    pub(super) fn scalar(&self, value: ValueId) -> String {
        match self.form(value) {
            Form::Tensor => name(value),
            Form::Number { text, .. } => text.clone(),
        }
    }

    pub(super) fn number(&self, value: ValueId) -> Option<&str> {
        match self.form(value) {
            Form::Tensor => None,
            Form::Number { text, .. } => Some(text),
        }
    }

    /// The operand of an op that its result takes the place of.
    pub(super) fn reused(&self, op: OpId) -> Option<ValueId> {
        self.reused.get(&op).copied().filter(|&value| *self.form(value) == Form::Tensor)
    }

    /// The groups of a collective by their number.
    pub(super) fn group(&mut self, groups: &[Vec<i64>]) -> String {
        let known = self.groups.iter().position(|known| known == groups);
        let number = known.unwrap_or_else(|| {
            self.groups.push(groups.to_vec());
            self.groups.len() - 1
        });
        format!("groups[{number}]")
    }

    /// A constant by its number.
    pub(super) fn constant(&mut self, dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<String, String> {
        let dtype = super::table::dtype(dtype)?;
        let mut hex = String::with_capacity(2 * bytes.len());
        bytes.iter().for_each(|byte| {
            let _ = write!(hex, "{byte:02x}");
        });
        self.constants.push(format!("    ({dtype}, {}, \"{hex}\"),\n", tuple(shape)));
        Ok(format!("constants[{}]", self.constants.len() - 1))
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.lines, "{:1$}{text}", "", 4 * self.indent);
    }

    /// One function.
    pub(super) fn part(&mut self, part: &Part) -> Result<(), String> {
        let upper = part.name.to_uppercase();
        self.place.clear();
        let _ = writeln!(self.lines, "\n\n# Numbers of the results that it gives.");
        let _ = writeln!(self.lines, "{upper} = {:?}", part.gives);
        let arguments = self.arguments(part);
        if matches!(part.name, "backward" | "update") {
            let _ = writeln!(self.lines, "# Numbers of the arguments that it needs.\n{upper}_NEEDS = {arguments:?}");
        }
        let _ = writeln!(self.lines);
        let takes: Vec<ValueId> =
            part.takes.iter().copied().filter(|&value| *self.form(value) == Form::Tensor).collect();
        let saves: Vec<ValueId> =
            part.saves.iter().copied().filter(|&value| *self.form(value) == Form::Tensor).collect();
        let parameters = if part.name == "forward" || part.name == "run" { "arguments" } else { "arguments, saved" };
        let _ = writeln!(self.lines, "def {}({parameters}):", part.name);
        self.indent = 1;
        for &number in &arguments {
            let own = self.program.body().arguments[number];
            let line = format!("{} = arguments[{number}]  # {}", name(own), self.program.arguments[number].name);
            self.line(line.trim_end_matches([' ', '#']));
        }
        if !part.takes.is_empty() {
            let names: Vec<String> = part.takes.iter().map(|&value| self.taken(value)).collect();
            self.line(&format!("[{}] = saved", names.join(", ")));
            self.line("saved.clear()");
        }
        let body = &self.program.body().results;
        let results: Vec<ValueId> = part.gives.iter().map(|&number| body[number]).collect();
        let mut kept: FxHashSet<ValueId> = results.iter().chain(&saves).copied().collect();
        let groups = self.groups_of(&part.ops, &kept);
        let written = self.writes(part, &groups)?;
        kept.extend(part.writes.iter().map(|&(_, result)| body[result]));
        self.block(&groups, &kept, &takes, &written)?;
        let given: Vec<String> = results.iter().map(|&value| self.tensor(value)).collect();
        let saved: Vec<String> = part.saves.iter().map(|&value| self.scalar(value)).collect();
        match part.name {
            "run" => self.line(&format!("return [{}]", given.join(", "))),
            "update" => self.line("return None"),
            _ => self.line(&format!("return [{}], [{}]", given.join(", "), saved.join(", "))),
        }
        self.indent = 0;
        if part.name == "backward" {
            // Users have gradients until they let go of them.
            results.iter().for_each(|&gradient| self.ledger.hold(gradient));
        }
        Ok(())
    }

    /// What is taken that is a number anyway goes nowhere.
    fn taken(&self, value: ValueId) -> String {
        if *self.form(value) == Form::Tensor { name(value) } else { "_".to_owned() }
    }

    /// Arguments that the ops of a part read, or that it overwrites, by number.
    pub(super) fn arguments(&self, part: &Part) -> Vec<usize> {
        let program = self.program;
        let mut read: FxHashSet<ValueId> = part.ops.iter().flat_map(|&op| program.outer_reads(op)).collect();
        let results = &program.body().results;
        read.extend(part.gives.iter().map(|&number| results[number]));
        read.extend(part.saves.iter().copied());
        // Gradients are what the user leaves, also where they are arguments as they are.
        part.takes.iter().for_each(|taken| {
            read.remove(taken);
        });
        let written: FxHashSet<usize> = part.writes.iter().map(|&(argument, _)| argument).collect();
        let arguments = program.body().arguments.iter().enumerate();
        let is_needed = |(number, argument): &(usize, &ValueId)| read.contains(argument) || written.contains(number);
        arguments.filter(is_needed).map(|(number, _)| number).collect()
    }

    /// Ops in the order in which they run, those together that run at once.
    fn groups_of(&self, ops: &[OpId], kept: &FxHashSet<ValueId>) -> Vec<Vec<OpId>> {
        with_experts(self, combined(self.program, ops), kept)
    }

    /// After which op of a part each argument is overwritten: as soon as its next value is there and nothing reads it,
    /// or a view of it, any more.
    fn writes(&self, part: &Part, groups: &[Vec<OpId>]) -> Result<Writes, String> {
        let program = self.program;
        let roots = roots(program);
        let mut last: FxHashMap<ValueId, usize> = FxHashMap::default();
        let mut made: FxHashMap<ValueId, usize> = FxHashMap::default();
        for (place, &op) in placed(groups) {
            for value in program.outer_reads(op) {
                roots[value.index()].iter().for_each(|&root| _ = last.insert(root, place));
            }
            program.ops[op].results.iter().for_each(|&result| _ = made.insert(result, place));
        }
        let end = groups.len().saturating_sub(1);
        let values =
            |&(argument, result): &(usize, usize)| (program.body().arguments[argument], program.body().results[result]);
        let (views, others): (Vec<_>, Vec<_>) = part
            .writes
            .iter()
            .map(values)
            .filter(|(argument, result)| argument != result)
            .partition(|(_, result)| !roots[result.index()].is_empty());
        let mut written = Writes::default();
        for &(argument, result) in &views {
            // What may be a view of an argument is written before that one is.
            let seen = &roots[result.index()];
            if views.iter().any(|(other, _)| *other != argument && seen.contains(other)) {
                return Err("arguments take the places of each other, which PyTorch has no words for".to_owned());
            }
            seen.iter().for_each(|&root| _ = last.insert(root, end));
            written.entry(end).or_default().push((argument, result));
        }
        for &(argument, result) in &others {
            let place = made.get(&result).copied().unwrap_or(end).max(last.get(&argument).copied().unwrap_or(0));
            written.entry(place).or_default().push((argument, result));
        }
        Ok(written)
    }

    /// Ops in order, those of a group at once; what is deleted is what they make and what is `deletable`, and not what is
    /// `kept`.
    fn block(
        &mut self,
        groups: &[Vec<OpId>],
        kept: &FxHashSet<ValueId>,
        deletable: &[ValueId],
        written: &Writes,
    ) -> Result<(), String> {
        let mut last: BTreeMap<ValueId, usize> = deletable.iter().map(|&value| (value, 0)).collect();
        for (place, &op) in placed(groups) {
            self.program.ops[op].results.iter().for_each(|&result| _ = last.insert(result, place));
            for value in self.program.outer_reads(op) {
                last.entry(value).and_modify(|known| *known = place);
            }
        }
        // What is made within a group for the rest of it is never there by itself.
        let inner: FxHashSet<ValueId> = groups.iter().flat_map(|group| unmade(self.program, group)).collect();
        let mut ends: Vec<Vec<ValueId>> = vec![Vec::new(); groups.len()];
        for (&value, &end) in &last {
            let is_unmade = inner.contains(&value);
            if end < groups.len() && !kept.contains(&value) && *self.form(value) == Form::Tensor && !is_unmade {
                ends[end].push(value);
            }
        }
        let pairs: Vec<(ValueId, ValueId)> = written.values().flatten().copied().collect();
        self.reused.extend(reused(self.program, groups, &last, kept, &pairs));
        let mut copied: BTreeSet<ValueId> = BTreeSet::new();
        for (place, group) in groups.iter().enumerate() {
            let mut dying = std::mem::take(&mut ends[place]);
            dying.sort_unstable();
            match group.as_slice() {
                &[op] => self.operation(op, &mut dying)?,
                several => self.several(several)?,
            }
            for &(argument, result) in written.get(&place).into_iter().flatten() {
                self.overwrite(argument, result);
                copied.insert(result);
            }
            // What was kept for an argument can go once it is there, or later once nothing reads it.
            let done = copied.iter().filter(|result| last.get(result).is_some_and(|&end| end <= place));
            let mut done: Vec<ValueId> = done.copied().filter(|&result| *self.form(result) == Form::Tensor).collect();
            done.sort_unstable();
            done.iter().for_each(|result| _ = copied.remove(result));
            dying.extend(done);
            self.delete(&dying);
        }
        Ok(())
    }

    fn overwrite(&mut self, argument: ValueId, result: ValueId) {
        if self.is_written_over(argument, result) {
            return;
        }
        let line = match self.form(result) {
            Form::Tensor => format!("{}.copy_({})", name(argument), name(result)),
            Form::Number { text, .. } => format!("{}.fill_({text})", name(argument)),
        };
        self.line(&line);
    }

    /// Whether a value was made where an argument is.
    fn is_written_over(&self, argument: ValueId, mut value: ValueId) -> bool {
        while let Some(operand) = self.program.producer(value).and_then(|op| self.reused(op)) {
            value = operand;
        }
        value == argument
    }

    fn delete(&mut self, values: &[ValueId]) {
        if !values.is_empty() {
            let names: Vec<String> = values.iter().map(|&value| name(value)).collect();
            self.line(&format!("del {}", names.join(", ")));
            self.ledger.delete(values);
        }
    }

    /// One op. A loop takes those of its operands out of `dying` that it deletes itself.
    fn operation(&mut self, op: OpId, dying: &mut Vec<ValueId>) -> Result<(), String> {
        let program = self.program;
        let operation = &program.ops[op];
        let is_tensor = |value: &ValueId| *self.form(*value) == Form::Tensor;
        if !operation.results.is_empty() && !operation.results.iter().any(is_tensor) && operation.regions.is_empty() {
            let result = operation.results[0];
            // Most numbers stand where they are read.
            if self.number(result) == Some(name(result).as_str()) {
                let text = expression(self, op)?;
                self.line(&format!("{} = {text}", name(result)));
            }
            return Ok(());
        }
        self.tell_place(op);
        match operation.op {
            Op::While => self.repeat(op, dying),
            Op::If | Op::Case => self.branch(op),
            Op::OptimizationBarrier => {
                for (&operand, &result) in operation.operands.iter().zip(&operation.results) {
                    let text = self.tensor(operand);
                    self.line(&format!("{} = {text}", name(result)));
                    self.ledger.bind(op, result, operand, &self.forms);
                }
                Ok(())
            }
            _ => {
                let text = expression(self, op).map_err(|reason| self.refused(op, &reason))?;
                let names: Vec<String> = operation.results.iter().map(|&result| name(result)).collect();
                let left = if names.is_empty() { String::new() } else { format!("{} = ", names.join(", ")) };
                self.line(&format!("{left}{text}"));
                self.ledger.run(op, self.written_over(op), &self.forms);
                Ok(())
            }
        }
    }

    /// Collectives that are one, or an op that does without another.
    fn several(&mut self, ops: &[OpId]) -> Result<(), String> {
        self.tell_place(ops[0]);
        if let &[maker, op] = ops
            && let Some(text) = experts(self, maker, op)
        {
            self.line(&format!("{} = {text}", name(self.program.ops[op].results[0])));
            self.ledger.run_experts(maker, op);
            return Ok(());
        }
        let text = together(self, ops).map_err(|reason| self.refused(ops[0], &reason))?;
        let names: Vec<String> = ops.iter().map(|&op| name(self.program.ops[op].results[0])).collect();
        self.line(&format!("{} = {text}", names.join(", ")));
        self.ledger.run_together(ops);
        Ok(())
    }

    /// The operand in whose place the result of an op is written.
    fn written_over(&self, op: OpId) -> Option<ValueId> {
        let operation = &self.program.ops[op];
        let own = operation.operands.first().copied().filter(|&value| match operation.op {
            Op::Binary(Binary::Add) => self.is_own(value) && *self.form(operation.operands[1]) == Form::Tensor,
            Op::DynamicUpdateSlice => self.is_own(value),
            _ => false,
        });
        self.reused(op).or(own)
    }

    fn refused(&self, op: OpId, reason: &str) -> String {
        let operation = &self.program.ops[op];
        let location = &self.program.locations[operation.location];
        let place = if location.scope.is_empty() { String::new() } else { format!(" in `{}`", location.scope) };
        format!("`{}`{place} cannot be written for PyTorch: {reason}", operation.op.name())
    }

    /// A comment with the module and the line that the next ops come from.
    fn tell_place(&mut self, op: OpId) {
        let location = &self.program.locations[self.program.ops[op].location];
        let scope = location.scope.rsplit_once('/').map_or("", |(scope, _)| scope);
        let file = location.file.rsplit('/').next().unwrap_or_default();
        let place = match (scope, file) {
            ("", "") => String::new(),
            ("", file) => format!("# {file}:{}", location.line),
            (scope, "") => format!("# {scope}"),
            (scope, file) => format!("# {scope} ({file}:{})", location.line),
        };
        if place != self.place && !place.is_empty() {
            self.line(&place);
            self.place = place;
        }
    }

    fn repeat(&mut self, op: OpId, dying: &mut Vec<ValueId>) -> Result<(), String> {
        let program = self.program;
        let operation = &program.ops[op];
        let &[condition, body] = operation.regions.as_slice() else { return Err("a loop has two regions".to_owned()) };
        let arguments = program.regions[body].arguments.clone();
        let tensors: Vec<usize> =
            (0..arguments.len()).filter(|&at| *self.form(arguments[at]) == Form::Tensor).collect();
        for &at in &tensors {
            let text = self.tensor(operation.operands[at]);
            self.line(&format!("{} = {text}", name(arguments[at])));
            self.ledger.bind(op, arguments[at], operation.operands[at], &self.forms);
        }
        // What a loop starts from would otherwise be there until it ends.
        let inside: FxHashSet<ValueId> = self.regions_read(op);
        let is_over = |value: &ValueId| operation.operands.contains(value) && !inside.contains(value);
        let gone: Vec<ValueId> = dying.iter().copied().filter(is_over).collect();
        self.delete(&gone);
        dying.retain(|value| !gone.contains(value));
        match program.counted_loop(op) {
            Some(counted) => {
                let stop = counted.start + counted.trips as i64 * counted.step;
                let counter = name(arguments[counted.counter]);
                self.line(&format!("for {counter} in range({}, {stop}, {}):", counted.start, counted.step));
                self.indent += 1;
            }
            None => {
                self.line("while True:");
                self.indent += 1;
                self.condition(op, condition)?;
            }
        }
        self.trip(op, body, &arguments, &tensors)?;
        self.indent -= 1;
        let inner: Vec<ValueId> = tensors.iter().map(|&at| arguments[at]).collect();
        if !inner.is_empty() {
            let results: Vec<String> = tensors.iter().map(|&at| name(operation.results[at])).collect();
            let names: Vec<String> = inner.iter().map(|&value| name(value)).collect();
            self.line(&format!("{} = {}", results.join(", "), names.join(", ")));
            for &at in &tensors {
                self.ledger.bind(op, operation.results[at], arguments[at], &self.forms);
            }
            self.delete(&inner);
        }
        Ok(())
    }

    /// What regions of an op read that is made outside of it.
    fn regions_read(&self, op: OpId) -> FxHashSet<ValueId> {
        let program = self.program;
        let regions = program.ops[op].regions.iter();
        let ops = regions.clone().flat_map(|&region| program.regions[region].ops.iter().copied());
        let reads = ops.flat_map(|inner| program.reads(inner));
        reads.chain(regions.flat_map(|&region| program.regions[region].results.iter().copied())).collect()
    }

    /// Ends a loop whose trips are not counted.
    fn condition(&mut self, op: OpId, condition: RegionId) -> Result<(), String> {
        let program = self.program;
        let body = program.ops[op].regions[1];
        let own = &program.regions[condition];
        for (&argument, &same) in own.arguments.iter().zip(&program.regions[body].arguments) {
            if *self.form(argument) == Form::Tensor {
                self.line(&format!("{} = {}", name(argument), name(same)));
            }
        }
        let kept: FxHashSet<ValueId> = own.results.iter().copied().collect();
        self.block(&self.groups_of(&own.ops, &kept), &kept, &own.arguments, &Writes::default())?;
        let verdict = self.scalar(own.results[0]);
        self.line(&format!("if not {verdict}:"));
        self.line("    break");
        Ok(())
    }

    fn trip(&mut self, op: OpId, body: RegionId, arguments: &[ValueId], tensors: &[usize]) -> Result<(), String> {
        let program = self.program;
        let region = &program.regions[body];
        let kept: FxHashSet<ValueId> = region.results.iter().copied().collect();
        if region.ops.is_empty() && tensors.is_empty() {
            self.line("pass");
        }
        self.block(&self.groups_of(&region.ops, &kept), &kept, arguments, &Writes::default())?;
        let changed: Vec<usize> = tensors.iter().copied().filter(|&at| region.results[at] != arguments[at]).collect();
        if changed.is_empty() {
            self.line("pass");
            return Ok(());
        }
        let left: Vec<String> = changed.iter().map(|&at| name(arguments[at])).collect();
        let right: Vec<String> = changed.iter().map(|&at| self.tensor(region.results[at])).collect();
        self.line(&format!("{} = {}", left.join(", "), right.join(", ")));
        for &at in &changed {
            self.ledger.bind(op, arguments[at], region.results[at], &self.forms);
        }
        let is_made_here = |value: &ValueId| {
            program.producer(*value).is_some_and(|op| region.ops.contains(&op)) && *self.form(*value) == Form::Tensor
        };
        let mut made: Vec<ValueId> = changed.iter().map(|&at| region.results[at]).filter(is_made_here).collect();
        made.sort_unstable();
        made.dedup();
        self.delete(&made);
        Ok(())
    }

    fn branch(&mut self, op: OpId) -> Result<(), String> {
        let program = self.program;
        let operation = &program.ops[op];
        let chooser = self.scalar(operation.operands[0]);
        let count = operation.regions.len();
        for (number, &region) in operation.regions.iter().enumerate() {
            let head = match (&operation.op, number) {
                (Op::If, 0) => format!("if {chooser}:"),
                (Op::Case, 0) if count > 1 => format!("if {chooser} == 0:"),
                (Op::Case, number) if number + 1 < count => format!("elif {chooser} == {number}:"),
                (_, 0) => "if True:".to_owned(),
                // What no branch is for goes to the last.
                _ => "else:".to_owned(),
            };
            self.line(&head);
            self.indent += 1;
            let region = &program.regions[region];
            let kept: FxHashSet<ValueId> = region.results.iter().copied().collect();
            self.block(&self.groups_of(&region.ops, &kept), &kept, &[], &Writes::default())?;
            for (&result, &value) in operation.results.iter().zip(&region.results) {
                let text = self.tensor(value);
                self.line(&format!("{} = {text}", name(result)));
                self.ledger.bind(op, result, value, &self.forms);
            }
            if operation.results.is_empty() {
                self.line("pass");
            }
            self.indent -= 1;
        }
        Ok(())
    }

    /// Whether an op may write into a value that it reads: what a loop carries, which began as a number everywhere and
    /// which nothing else reads.
    pub(super) fn is_own(&self, value: ValueId) -> bool {
        let program = self.program;
        let Definition::Argument { region, index } = program.values[value].definition else { return false };
        let holder = program.ops.ids().find(|&op| program.ops[op].regions.get(1) == Some(&region));
        let Some(holder) = holder.filter(|&op| program.ops[op].op == Op::While) else { return false };
        let starts_fresh = *self.form(program.ops[holder].operands[index as usize]) != Form::Tensor;
        let own = &program.regions[region];
        let reads = own.ops.iter().flat_map(|&op| program.reads(op)).chain(own.results.iter().copied());
        starts_fresh && reads.filter(|&read| read == value).count() == 1
    }
}

/// What ops of a group make that others of it read.
fn unmade(program: &Program, group: &[OpId]) -> Vec<ValueId> {
    let reads: Vec<ValueId> = group.iter().flat_map(|&op| program.ops[op].operands.iter().copied()).collect();
    let made = group.iter().flat_map(|&op| program.ops[op].results.iter().copied());
    if group.len() < 2 { Vec::new() } else { made.filter(|value| reads.contains(value)).collect() }
}

/// Ops with the places of their groups.
fn placed(groups: &[Vec<OpId>]) -> impl Iterator<Item = (usize, &OpId)> {
    groups.iter().enumerate().flat_map(|(place, group)| group.iter().map(move |op| (place, op)))
}

/// Numbers as a tuple of Python.
pub(super) fn tuple<T: std::fmt::Display>(numbers: &[T]) -> String {
    let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    if texts.len() == 1 { format!("({},)", texts[0]) } else { format!("({})", texts.join(", ")) }
}
