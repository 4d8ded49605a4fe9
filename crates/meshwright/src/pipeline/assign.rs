//! Which chunk each op belongs to, found from dataflow.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::balance::balance;
use super::portable::Portable;
use crate::program::{Anatomy, ArgumentClass, Binary, Id, Op, OpId, Phase, Program, ValueId, twin_key};
use crate::tactics::Pattern;

/// Chunks in order.
pub(super) type Chunks = SmallVec<[usize; 2]>;

/// How the chunks are given.
pub(super) enum Cut<'c> {
    /// As many, of about the same work.
    Even,
    /// The scopes of each.
    Scopes(&'c [Vec<Pattern>]),
    /// The first op of each but the first, in order.
    Before(&'c [OpId]),
}

/// What belongs to which chunk.
pub(super) struct Assignment {
    /// For each op of the body, the chunks that run it: none for ops that stand wherever they are read, and
    /// several for updates of what several chunks hold.
    pub(super) chunks: Vec<Chunks>,
    /// Whether an op adds up gradients of several chunks, or comes after one that does: once in a step, after
    /// all microbatches.
    pub(super) joins: Vec<bool>,
    /// For each op of the backward pass, whether it leads to the gradient of one parameter alone.
    pub(super) for_one: Vec<bool>,
    /// Whether an op computes again what an op of the forward pass did.
    pub(super) again: Vec<bool>,
    /// For each argument that is a parameter, the chunks that hold it.
    pub(super) held: Vec<Chunks>,
    pub(super) portable: Portable,
}

/// Assigns all ops of the body. The error says what is wrong, and what to do.
pub(super) fn assign(
    program: &Program,
    anatomy: &Anatomy,
    chunk_count: usize,
    cut: &Cut<'_>,
) -> Result<Assignment, (String, Option<String>)> {
    let portable = Portable::find(program, anatomy);
    let mut assigner = Assigner {
        program,
        anatomy,
        chunk_count,
        portable,
        chunks: vec![Chunks::new(); program.ops.len()],
        available: vec![Chunks::new(); program.values.len()],
        meanings: program.values.ids().collect(),
        joins: vec![false; program.ops.len()],
        again: vec![false; program.ops.len()],
        leads: vec![Lead::Nowhere; program.values.len()],
    };
    assigner.forward(cut)?;
    assigner.find_available();
    assigner.find_meanings();
    assigner.find_leads(Phase::Backward);
    let for_one = program.ops.ids().map(|op| matches!(assigner.lead(op), Lead::One(_))).collect();
    assigner.backward();
    assigner.find_leads(Phase::Update);
    assigner.find_held();
    assigner.update();
    let held = program.body().arguments.iter().map(|value| assigner.available[value.index()].clone()).collect();
    let Assigner { chunks, joins, again, portable, .. } = assigner;
    Ok(Assignment { chunks, joins, for_one, again, held, portable })
}

struct Assigner<'p> {
    program: &'p Program,
    anatomy: &'p Anatomy,
    chunk_count: usize,
    portable: Portable,
    chunks: Vec<Chunks>,
    /// The chunks of the forward pass that make a value or read it.
    available: Vec<Chunks>,
    /// What a value is again: of a barrier's result its operand, of a recomputed value the first one.
    meanings: Vec<ValueId>,
    joins: Vec<bool>,
    again: Vec<bool>,
    leads: Vec<Lead>,
}

/// Which parameters a value has a part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    Nowhere,
    /// The number of the argument.
    One(usize),
    Many,
}

impl Lead {
    fn and(self, other: Lead) -> Lead {
        match (self, other) {
            (Lead::Nowhere, other) => other,
            (one, Lead::Nowhere) => one,
            (one, other) if one == other => one,
            _ => Lead::Many,
        }
    }
}

impl Assigner<'_> {
    fn makes_work(&self, op: OpId) -> bool {
        makes_work(self.program, &self.portable, op)
    }

    fn ops(&self, phase: Phase) -> Vec<OpId> {
        working_ops(self.program, self.anatomy, &self.portable, phase)
    }

    fn forward(&mut self, cut: &Cut<'_>) -> Result<(), (String, Option<String>)> {
        let ops = self.ops(Phase::Forward);
        match cut {
            Cut::Even => {
                let found = balance(self.program, &self.portable, &ops, self.chunk_count);
                let chunks = found.map_err(|most| self.too_many(most))?;
                ops.iter().zip(chunks).for_each(|(op, chunk)| self.chunks[op.index()].push(chunk));
                Ok(())
            }
            Cut::Scopes(scopes) => self.forward_by_scopes(&ops, scopes),
            Cut::Before(starts) => self.forward_before(&ops, starts),
        }
    }

    fn forward_before(&mut self, ops: &[OpId], starts: &[OpId]) -> Result<(), (String, Option<String>)> {
        let mut chunk = 0;
        for &op in ops {
            chunk += usize::from(starts.get(chunk) == Some(&op));
            self.chunks[op.index()].push(chunk);
        }
        match starts.get(chunk) {
            None => Ok(()),
            Some(start) => Err((format!("no chunk can begin with {start}: it is no work of the forward pass"), None)),
        }
    }

    fn too_many(&self, most: usize) -> (String, Option<String>) {
        let message = format!("the model cannot be cut into {} chunks: there are too few layers", self.chunk_count);
        (message, Some(format!("at its finest it has {most} pieces; ask for fewer stages, or fewer `chunks` on each")))
    }

    /// An op in no scope that is given goes with the latest of what it reads.
    fn forward_by_scopes(&mut self, ops: &[OpId], scopes: &[Vec<Pattern>]) -> Result<(), (String, Option<String>)> {
        let mut is_found = vec![false; scopes.len()];
        for &op in ops {
            let scope = &self.program.locations[self.program.ops[op].location].scope;
            let fits = |patterns: &Vec<Pattern>| patterns.iter().any(|pattern| pattern.scope(scope).is_some());
            let given = scopes.iter().position(fits);
            given.iter().for_each(|&chunk| is_found[chunk] = true);
            let reads = self.program.outer_reads(op);
            let makers = reads.iter().filter_map(|&value| self.program.producer(value));
            let latest = makers.filter_map(|maker| self.chunks[maker.index()].last().copied()).max().unwrap_or(0);
            // What a later chunk makes cannot be read by an earlier one.
            self.chunks[op.index()].push(given.unwrap_or(latest).max(latest));
        }
        match is_found.iter().position(|found| !found) {
            None => Ok(()),
            Some(chunk) => {
                let texts: Vec<String> = scopes[chunk].iter().map(|pattern| format!("`{}`", pattern.text())).collect();
                let message = format!("no operation of the forward pass is in a scope {}", texts.join(" or "));
                let hint = "`print --locations` shows the scopes; stages are given in the order of the model";
                Err((message, Some(hint.to_owned())))
            }
        }
    }

    /// Readers come later, so that a walk from the end sees them first.
    fn find_available(&mut self) {
        for &op in self.program.body().ops.iter().rev() {
            if !self.anatomy.is_forward(op) && self.makes_work(op) {
                continue;
            }
            let mut chunks = self.chunks[op.index()].clone();
            for &result in &self.program.ops[op].results {
                if self.makes_work(op) {
                    add_all(&mut self.available[result.index()], &chunks);
                } else {
                    // What is not work is there where its readers are, and so is what it is made of.
                    add_all(&mut chunks, &self.available[result.index()]);
                }
            }
            for value in self.program.outer_reads(op) {
                add_all(&mut self.available[value.index()], &chunks);
            }
        }
        for (&value, &class) in self.program.body().arguments.iter().zip(&self.anatomy.classes) {
            if class == ArgumentClass::Parameter && self.available[value.index()].is_empty() {
                self.available[value.index()].push(0);
            }
        }
        // Forms of weights that only the backward pass reads belong to where the weights do.
        for &op in &self.program.body().ops {
            for &result in &self.program.ops[op].results {
                if self.portable.is_state(result) && self.available[result.index()].is_empty() {
                    for value in self.program.outer_reads(op) {
                        let there = self.available[value.index()].clone();
                        add_all(&mut self.available[result.index()], &there);
                    }
                }
            }
        }
    }

    /// Recomputed values mean what they were computed to be the first time.
    fn find_meanings(&mut self) {
        let mut known: FxHashMap<u64, SmallVec<[OpId; 2]>> = FxHashMap::default();
        for &op in &self.program.body().ops {
            let operation = &self.program.ops[op];
            if operation.op == Op::OptimizationBarrier {
                for (operand, result) in operation.operands.iter().zip(&operation.results) {
                    self.meanings[result.index()] = self.meanings[operand.index()];
                }
                continue;
            }
            let operands: Vec<ValueId> =
                operation.operands.iter().map(|operand| self.meanings[operand.index()]).collect();
            let twins = known.entry(twin_key(&operation.op, &operands)).or_default();
            if !self.anatomy.is_recomputed(op) {
                twins.push(op);
                continue;
            }
            let is_twin = |&&twin: &&OpId| {
                let other = &self.program.ops[twin];
                let meant = other.operands.iter().map(|operand| self.meanings[operand.index()]);
                other.op == operation.op && meant.eq(operands.iter().copied())
            };
            if let Some(&twin) = twins.iter().find(is_twin) {
                self.again[op.index()] = true;
                for (result, first) in operation.results.iter().zip(&self.program.ops[twin].results) {
                    self.meanings[result.index()] = *first;
                }
            }
        }
    }

    /// Which parameters values of a phase have a part in: by their gradients in the backward pass, by their
    /// next values in the update.
    fn find_leads(&mut self, phase: Phase) {
        let program = self.program;
        self.leads = vec![Lead::Nowhere; program.values.len()];
        for (argument, &class) in self.anatomy.classes.iter().enumerate() {
            let next = self.anatomy.next[argument].map(|result| program.body().results[result]);
            let end = if phase == Phase::Update { next } else { self.anatomy.gradients[argument] };
            if let (Some(end), ArgumentClass::Parameter) = (end, class) {
                self.leads[end.index()] = self.leads[end.index()].and(Lead::One(argument));
            }
        }
        for &op in program.body().ops.iter().rev().filter(|&&op| self.anatomy.phase(op) == phase) {
            let lead = self.lead(op);
            for value in program.outer_reads(op) {
                self.leads[value.index()] = self.leads[value.index()].and(lead);
            }
        }
    }

    fn lead(&self, op: OpId) -> Lead {
        let results = self.program.ops[op].results.iter();
        results.fold(Lead::Nowhere, |lead, result| lead.and(self.leads[result.index()]))
    }

    fn backward(&mut self) {
        for op in self.ops(Phase::Backward) {
            self.chunks[op.index()] = self.backward_chunks(op);
        }
    }

    fn backward_chunks(&mut self, op: OpId) -> Chunks {
        let program = self.program;
        let reads: Vec<ValueId> =
            program.outer_reads(op).into_iter().map(|value| self.meanings[value.index()]).collect();
        let gradients: Vec<OpId> = reads
            .iter()
            .filter_map(|&value| program.producer(value))
            .filter(|&maker| self.anatomy.phase(maker) == Phase::Backward && self.makes_work(maker))
            .collect();
        if let Some(chunks) = self.joined(op, &gradients) {
            self.joins[op.index()] = true;
            return chunks;
        }
        let earliest = gradients.iter().filter_map(|maker| self.chunks[maker.index()].first().copied()).min();
        let limit = earliest.unwrap_or(self.chunk_count - 1);
        // Constants and the batch are wherever they are read, and tell nothing.
        let tells = |value: &&ValueId| !self.portable.is_portable(**value) || self.portable.is_state(**value);
        let anchors = reads.iter().filter(tells).map(|value| &self.available[value.index()]);
        let anchors: Vec<&Chunks> = anchors.filter(|chunks| !chunks.is_empty()).collect();
        let everywhere = |chunk: &usize| anchors.iter().all(|chunks| chunks.contains(chunk));
        if let Some(chunk) = (0..=limit).rev().filter(|_| !anchors.is_empty()).find(everywhere) {
            return Chunks::from_slice(&[chunk]);
        }
        let latest_of = |chunks: &&Chunks| chunks.iter().copied().filter(|&chunk| chunk <= limit).max();
        let anchored = anchors.iter().filter_map(latest_of).max();
        // A gradient that is summed up for a bias reads nothing of the forward pass.
        let led = || {
            let argument = self.updated_with(op).or_else(|| match self.lead(op) {
                Lead::One(argument) => Some(argument),
                Lead::Nowhere | Lead::Many => None,
            })?;
            latest_of(&&self.available[program.body().arguments[argument].index()])
        };
        Chunks::from_slice(&[anchored.or_else(led).unwrap_or(limit)])
    }

    /// The parameter whose gradient an op makes, also where others need that too, as those before a norm need the
    /// gradient of its bias.
    fn updated_with(&self, op: OpId) -> Option<usize> {
        let results = &self.program.ops[op].results;
        self.anatomy.gradients.iter().position(|gradient| gradient.is_some_and(|value| results.contains(&value)))
    }

    /// The chunks of an op that adds up gradients of a parameter that several chunks use, or of one after it.
    fn joined(&self, op: OpId, gradients: &[OpId]) -> Option<Chunks> {
        let Lead::One(argument) = self.lead(op) else { return None };
        let users = &self.available[self.program.body().arguments[argument].index()];
        let first = gradients.first()?;
        let is_after = gradients.iter().any(|maker| self.joins[maker.index()]);
        let is_spread = gradients.iter().any(|maker| self.chunks[maker.index()] != self.chunks[first.index()]);
        let operation = &self.program.ops[op];
        let shape = self.program.shape(self.program.body().arguments[argument]);
        // Gradients of activations that lead to an embedding alone are no parts of its gradient.
        let is_sum = operation.op == Op::Binary(Binary::Add) && self.program.shape(operation.results[0]) == shape;
        (users.len() > 1 && (is_after || is_spread && is_sum)).then(|| users.clone())
    }

    /// Chunks that read a parameter in the backward pass alone hold it too, and have to update what they hold.
    fn find_held(&mut self) {
        let mut held = vec![Chunks::new(); self.program.values.len()];
        for &op in self.program.body().ops.iter().rev() {
            if self.anatomy.phase(op) == Phase::Update {
                continue;
            }
            let mut chunks = self.chunks[op.index()].clone();
            if !self.makes_work(op) {
                self.program.ops[op].results.iter().for_each(|result| add_all(&mut chunks, &held[result.index()]));
            }
            self.program.outer_reads(op).iter().for_each(|value| add_all(&mut held[value.index()], &chunks));
        }
        for (&value, &class) in self.program.body().arguments.iter().zip(&self.anatomy.classes) {
            if class == ArgumentClass::Parameter {
                add_all(&mut self.available[value.index()], &held[value.index()]);
            }
        }
    }

    fn update(&mut self) {
        for op in self.ops(Phase::Update) {
            self.chunks[op.index()] = self.update_chunks(op);
        }
    }

    fn update_chunks(&self, op: OpId) -> Chunks {
        let program = self.program;
        if let Lead::One(argument) = self.lead(op) {
            return self.available[program.body().arguments[argument].index()].clone();
        }
        let mut makers: Vec<(bool, &Chunks)> = Vec::new();
        for value in program.outer_reads(op) {
            let made = program.producer(value).map(|maker| &self.chunks[maker.index()]);
            makers.extend(made.filter(|chunks| !chunks.is_empty()).map(|chunks| {
                let is_number = program.ty(value).elements() == 1;
                (is_number, chunks)
            }));
        }
        // Numbers are sent to where tensors are.
        if makers.iter().any(|(is_number, _)| !is_number) {
            makers.retain(|(is_number, _)| !is_number);
        }
        let everywhere = |chunk: &usize| makers.iter().all(|(_, chunks)| chunks.contains(chunk));
        let shared: Chunks = (0..self.chunk_count).filter(|_| !makers.is_empty()).filter(everywhere).collect();
        if !shared.is_empty() {
            return shared;
        }
        // A chain over all chunks, such as a norm of all gradients, goes through them in order.
        let latest = makers.iter().filter_map(|(_, chunks)| chunks.first().copied()).max();
        Chunks::from_slice(&[latest.unwrap_or(0)])
    }
}

/// The ops of a phase that belong to chunks, in order.
pub(super) fn working_ops(program: &Program, anatomy: &Anatomy, portable: &Portable, phase: Phase) -> Vec<OpId> {
    let is_wanted = |op: &&OpId| anatomy.phase(**op) == phase && makes_work(program, portable, **op);
    program.body().ops.iter().filter(is_wanted).copied().collect()
}

fn makes_work(program: &Program, portable: &Portable, op: OpId) -> bool {
    !portable.makes(program, op) && program.ops[op].op != Op::OptimizationBarrier
}

fn add_all(to: &mut Chunks, chunks: &[usize]) {
    for &chunk in chunks {
        if let Err(place) = to.binary_search(&chunk) {
            to.insert(place, chunk);
        }
    }
}
