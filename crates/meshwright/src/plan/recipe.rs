//! Everything that a plan decides about a program, told without how it was found.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::bundle::source;
use super::frames::batch;
use super::time::MICROBATCHES;
use crate::lower::{LocalProgram, Price, explain, lower_layout, measure};
use crate::pipeline::{Pipelined, Staging, staged};
use crate::program::{
    Anatomy, ArgumentClass, Group, Id, Op, OpId, Phase, Program, Recomputation, Type, ValueId, recompute,
};
use crate::shard::{Axis, FactorId, Layout, Mesh, PieceSet, Pieces, Refusal, Rule, Sharding, Strategy, factor_name};
use crate::tactics::{Feedback, Partitioned};

/// What was decided about a program. Ops and values are those of the program that was planned; pieces are those of
/// the mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// The axes of devices. None is in time.
    pub mesh: Mesh,
    pub microbatches: usize,
    /// Weights are gathered, and gradients reduced, for every microbatch.
    pub is_eager: bool,
    /// How each argument is stored.
    pub arguments: Vec<Sharding>,
    /// What was decided about ops, in program order. What is not there runs whole.
    pub ops: Vec<OpRecipe>,
    /// What is made again for the backward pass, each group at once.
    pub again: Vec<Again>,
    /// What runs in slices.
    pub splits: Vec<Split>,
    /// The arguments that lie in the memory of the host, by number, in order: state that is copied to the device for
    /// its update, and back.
    pub held: Vec<usize>,
    /// How the model is cut into stages, where it is. The mesh is then that of every stage, or has all axes that one has.
    pub staging: Option<Staging>,
}

/// How an op runs.
#[derive(Clone, Debug, PartialEq)]
pub struct OpRecipe {
    pub op: OpId,
    /// The factors of its rule that are cut, and by what.
    pub factors: Vec<(FactorId, Pieces)>,
    /// How each result lies once it is finished.
    pub results: Vec<Sharding>,
}

/// Ops that are made again together before the first op of the backward pass that reads of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Again {
    /// In program order.
    pub ops: Vec<OpId>,
    /// What the backward pass reads of it, in order.
    pub reads: Vec<ValueId>,
}

/// Ops that run in slices, one after the other, so that less is in memory at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub slices: usize,
    /// In program order, each with the factor of its rule that is cut.
    pub ops: Vec<(OpId, FactorId)>,
}

/// What a recipe comes to.
pub(super) struct Lowered {
    pub(super) local: LocalProgram,
    /// What the arguments are for.
    pub(super) classes: Vec<ArgumentClass>,
    /// The program that was lowered, where it is another than the one planned.
    pub(super) rewritten: Option<Rewritten>,
}

impl Recipe {
    /// The program that every device runs, and what its arguments are for. A recipe that does not fit the program is
    /// refused with the reason.
    pub fn lower(&self, program: &Program, price: Price<'_>) -> Result<(LocalProgram, Vec<ArgumentClass>), String> {
        let Lowered { local, classes, .. } = self.lower_on(&Layout::new(program, Mesh::default()), price)?;
        Ok((local, classes))
    }

    /// The same for a program that lies on no mesh yet.
    pub(super) fn lower_on(&self, base: &Layout<'_>, price: Price<'_>) -> Result<Lowered, String> {
        let mesh = self.check(base.program, &base.anatomy)?;
        let rewritten = self.rewrite(base);
        let layout = self.lay_out(base, rewritten.as_ref(), mesh)?;
        let anatomy = Arc::clone(&layout.anatomy);
        let (_, mut local) = lower_layout(layout, price)?;
        self.hold(&anatomy, &mut local);
        let classes = anatomy.classes.clone();
        Ok(Lowered { local, classes, rewritten })
    }

    /// What every stage runs, of a recipe that cuts the model into stages.
    pub fn pipeline(&self, program: &Program, price: Price<'_>) -> Result<Pipelined, String> {
        let mut pipelined = self.pipeline_on(&Layout::new(program, Mesh::default()), price)?;
        let measures = pipelined.pipeline.measures();
        pipelined.feedback = vec![Feedback { tactic: "plan".to_owned(), measures, notes: Vec::new() }];
        Ok(pipelined)
    }

    /// The same for a program that lies on no mesh yet, without what it costs.
    pub(super) fn pipeline_on(&self, base: &Layout<'_>, price: Price<'_>) -> Result<Pipelined, String> {
        let Some(staging) = &self.staging else { return Err("there are no stages".to_owned()) };
        let mesh = self.check(base.program, &base.anatomy)?;
        let rewritten = self.rewrite(base);
        let layout = self.lay_out(base, rewritten.as_ref(), mesh)?;
        let starts = match &rewritten {
            Some(rewritten) => staging.starts.iter().map(|&start| rewritten.first(start)).collect::<Result<_, _>>()?,
            None => staging.starts.clone(),
        };
        let (pipeline, modules) = staged(&layout, &Staging { starts, ..staging.clone() }, price)?;
        let anatomy = Arc::clone(&layout.anatomy);
        drop(layout);
        let program = rewritten.map_or_else(|| base.program.clone(), |rewritten| rewritten.program);
        Ok(Pipelined { program, anatomy, pipeline, modules, feedback: Vec::new(), conflicts: Vec::new() })
    }

    /// The same as what tactics come to, with the reasons of all reshards.
    pub fn partition(&self, program: &Program, price: Price<'_>) -> Result<Partitioned, String> {
        let base = Layout::new(program, Mesh::default());
        let mesh = self.check(program, &base.anatomy)?;
        let rewritten = self.rewrite(&base);
        let layout = self.lay_out(&base, rewritten.as_ref(), mesh)?;
        let anatomy = Arc::clone(&layout.anatomy);
        let (decided, mut local) = lower_layout(layout, price)?;
        self.hold(&anatomy, &mut local);
        let explanations = explain(&decided, &local, &["plan"]);
        drop(decided);
        let feedback =
            vec![Feedback { tactic: "plan".to_owned(), measures: measure(&local.program), notes: Vec::new() }];
        let program = rewritten.map_or_else(|| program.clone(), |rewritten| rewritten.program);
        Ok(Partitioned { program, anatomy, local, feedback, conflicts: Vec::new(), explanations })
    }

    /// Leaves some of the state on the host.
    fn hold(&self, anatomy: &Anatomy, local: &mut LocalProgram) {
        if !self.held.is_empty() {
            let pairs = self.held.iter().filter_map(|&argument| Some((argument, anatomy.next[argument]?)));
            let (program, origins) = local.program.held_on_host(&pairs.collect::<Vec<_>>());
            // Copies between host and device are the update's.
            local.is_late = origins.iter().map(|origin| origin.is_none_or(|op| local.is_late[op.index()])).collect();
            local.program = Arc::new(program);
        }
    }

    /// How many devices it takes.
    pub fn devices(&self) -> usize {
        self.staging.as_ref().map_or_else(|| self.mesh.devices(), |staging| staging.devices(&self.mesh))
    }

    /// The mesh with the axes in time: of microbatches, where there are any, and of slices.
    pub fn full_mesh(&self) -> Result<Mesh, String> {
        let mut axes = self.mesh.axes.clone();
        if self.microbatches > 1 {
            axes.push(Axis { name: MICROBATCHES.to_owned(), size: self.microbatches, temporal: true });
        }
        let slices = |(number, split): (usize, &Split)| Axis {
            name: format!("{SLICES}{number}"),
            size: split.slices,
            temporal: true,
        };
        axes.extend(self.splits.iter().enumerate().map(slices));
        Mesh::new(axes)
    }

    /// The program with what is made again, if anything is.
    pub(super) fn rewrite(&self, base: &Layout<'_>) -> Option<Rewritten> {
        if self.again.is_empty() {
            return None;
        }
        let is_late = |op: OpId| base.anatomy.phase(op) == Phase::Backward;
        let group = |again: &Again| Group {
            ops: again.ops.clone(),
            read: again.reads.iter().copied().collect(),
            ..Group::default()
        };
        let groups = self.again.iter().map(group).collect();
        let recomputation = Recomputation { is_late: &is_late, groups, delayed: FxHashSet::default() };
        let (program, origins) = recompute(base.program, recomputation);
        if self.microbatches == 1 {
            return Some(Rewritten { program, origins });
        }
        let (freed, second) = program.free_arguments_with_origins();
        let origins = second.into_iter().map(|op| op.and_then(|op| origins[op.index()])).collect();
        Some(Rewritten { program: freed, origins })
    }

    /// Lays the rewritten program out. Axes of devices come first, and stay where they are whatever is cut in time.
    fn lay_out<'p>(
        &self,
        base: &Layout<'p>,
        rewritten: Option<&'p Rewritten>,
        mesh: Mesh,
    ) -> Result<Layout<'p>, String> {
        let mut layout = match rewritten {
            Some(rewritten) => Layout::new(&rewritten.program, mesh),
            None => base.on(mesh),
        };
        let origin = |op: OpId| rewritten.map_or(Some(op), |rewritten| rewritten.origins[op.index()]);
        self.lay_on(&mut layout, &origin)?;
        if self.microbatches > 1 {
            let mesh = &layout.mesh;
            let spatial: PieceSet = mesh.all_pieces().filter(|&piece| !mesh.is_temporal(piece)).collect();
            freeze(&mut layout, spatial);
            crate::tactics::cut_batch(&mut layout, self.mesh.axes.len())?;
            if self.is_eager {
                layout.eager = spatial;
            }
        }
        let first = layout.mesh.axes.len() - self.splits.len();
        for (number, split) in self.splits.iter().enumerate() {
            split.lay_on(&mut layout, first + number, &origin)?;
        }
        Ok(layout)
    }

    /// Decides about a layout what was decided about the ops that its ops were.
    pub(super) fn lay_on(&self, layout: &mut Layout<'_>, origin: &dyn Fn(OpId) -> Option<OpId>) -> Result<(), String> {
        let program = layout.program;
        let most = self.ops.last().map_or(0, |last| last.op.index() + 1);
        let mut recipes: Vec<Option<&OpRecipe>> = vec![None; most];
        self.ops.iter().for_each(|recipe| recipes[recipe.op.index()] = Some(recipe));
        for op in program.ops.ids() {
            let recipe = origin(op).and_then(|origin| recipes.get(origin.index()).copied().flatten());
            let Some(recipe) = recipe else { continue };
            let strategy = recipe.strategy(layout.rule(op), &layout.mesh)?;
            layout.set_strategy(op, strategy);
            for (&value, lies) in program.ops[op].results.iter().zip(&recipe.results) {
                layout.set_sharding(value, lies);
            }
        }
        for (&value, lies) in program.body().arguments.iter().zip(&self.arguments) {
            layout.set_sharding(value, lies);
        }
        for &op in &program.body().ops {
            if program.ops[op].op == Op::OptimizationBarrier {
                for &value in &program.ops[op].results {
                    let lies: Sharding = layout.sharding(source(program, value)).clone();
                    layout.set_sharding(value, &lies);
                }
            }
        }
        Ok(())
    }

    /// What is wrong with a recipe for a program, before anything is done with it. Gives the mesh with all axes.
    fn check(&self, program: &Program, anatomy: &Anatomy) -> Result<Mesh, String> {
        if self.staging.is_some() && !self.splits.is_empty() {
            return Err("stages and slices cannot be had at once".to_owned());
        }
        if let Some(axis) = self.mesh.axes.iter().find(|axis| axis.temporal) {
            return Err(format!("axis `{}` is in time, devices lie along none of those", axis.name));
        }
        self.check_microbatches(program, anatomy)?;
        let arguments = &program.body().arguments;
        if self.arguments.len() != arguments.len() {
            return Err(format!("{} arguments are told, the program has {}", self.arguments.len(), arguments.len()));
        }
        for ((&value, lies), info) in arguments.iter().zip(&self.arguments).zip(&program.arguments) {
            let name = if info.name.is_empty() { value.to_string() } else { format!("`{}`", info.name) };
            check_sharding(&self.mesh, program.ty(value), lies).map_err(|reason| format!("{name} {reason}"))?;
        }
        let mut is_in_body = vec![false; program.ops.len()];
        program.body().ops.iter().for_each(|op| is_in_body[op.index()] = true);
        let is_there = |op: OpId| is_in_body.get(op.index()).copied().unwrap_or(false);
        for (index, recipe) in self.ops.iter().enumerate() {
            let op = recipe.op;
            if !is_there(op) {
                return Err(format!("there is no {op} in the program"));
            }
            if index > 0 && self.ops[index - 1].op >= op {
                return Err(format!("{op} is told twice, or out of order"));
            }
            recipe.check(program, &self.mesh)?;
        }
        self.check_again(program, anatomy, is_there)?;
        self.check_splits(is_there)?;
        self.check_held(anatomy)?;
        self.full_mesh()
    }

    fn check_microbatches(&self, program: &Program, anatomy: &Anatomy) -> Result<(), String> {
        if self.microbatches == 1 {
            return Ok(());
        }
        let batch = batch(program, &anatomy.classes);
        if self.microbatches == 0 || !batch.is_multiple_of(self.microbatches) {
            return Err(format!("a batch of {batch} is not cut into {} microbatches", self.microbatches));
        }
        Ok(())
    }

    fn check_held(&self, anatomy: &Anatomy) -> Result<(), String> {
        for (index, &argument) in self.held.iter().enumerate() {
            if !is_state(anatomy, argument) {
                return Err(format!("argument {argument} is no state with a next value, which alone lies on the host"));
            }
            if index > 0 && self.held[index - 1] >= argument {
                return Err(format!("argument {argument} lies on the host twice, or is told out of order"));
            }
        }
        Ok(())
    }

    fn check_splits(&self, is_there: impl Fn(OpId) -> bool) -> Result<(), String> {
        for split in &self.splits {
            if split.slices < 2 {
                return Err(format!("{} slices are none", split.slices));
            }
            for (index, &(op, _)) in split.ops.iter().enumerate() {
                if !is_there(op) {
                    return Err(format!("there is no {op} to cut into slices in the program"));
                }
                if index > 0 && split.ops[index - 1].0 >= op {
                    return Err(format!("{op} is cut into slices twice, or out of order"));
                }
            }
        }
        Ok(())
    }

    fn check_again(&self, program: &Program, anatomy: &Anatomy, is_there: impl Fn(OpId) -> bool) -> Result<(), String> {
        for again in &self.again {
            for (index, &op) in again.ops.iter().enumerate() {
                if !is_there(op) {
                    return Err(format!("there is no {op} to make again in the program"));
                }
                if anatomy.phase(op) == Phase::Backward {
                    return Err(format!("{op} is of the backward pass, nothing of which is made again"));
                }
                if index > 0 && again.ops[index - 1] >= op {
                    return Err(format!("{op} is made again twice at once, or out of order"));
                }
            }
            if let Some(value) = again.reads.iter().find(|value| program.values.get(**value).is_none()) {
                return Err(format!("there is no {value} to make again in the program"));
            }
        }
        Ok(())
    }
}

/// The name of the axes in time that slices lie along, before their number.
const SLICES: &str = "slices";

impl Split {
    /// Whether an op is cut into slices.
    pub(super) fn has(&self, op: OpId) -> bool {
        self.ops.binary_search_by_key(&op, |&(other, _)| other).is_ok()
    }

    /// Cuts ops into slices along an axis, after all else.
    fn lay_on(
        &self,
        layout: &mut Layout<'_>,
        axis: usize,
        origin: &dyn Fn(OpId) -> Option<OpId>,
    ) -> Result<(), String> {
        let program = layout.program;
        let Some(&piece) = layout.mesh.pieces(axis).first() else { return Ok(()) };
        layout.sliced.insert(piece);
        for op in program.ops.ids() {
            let found = origin(op).map(|origin| self.ops.binary_search_by_key(&origin, |&(op, _)| op));
            let Some(Ok(index)) = found else { continue };
            let factor = self.ops[index].1;
            let (rule, mut strategy) = (layout.rule(op), layout.strategy(op).clone());
            let added = match strategy.factors.get(usize::from(factor)) {
                Some(_) => strategy.may_add(rule, &layout.mesh, factor, piece).map_err(reason),
                None => Err("is not there"),
            };
            if let Err(reason) = added {
                let (name, slices) = (factor_name(usize::from(factor)), self.slices);
                return Err(format!(
                    "factor `{name}` of {op} is not cut into {slices} slices: it {reason}; its rule is `{rule}`"
                ));
            }
            strategy.factors[usize::from(factor)].push(piece);
            layout.set_strategy(op, strategy);
            for (&value, made) in program.ops[op].results.iter().zip(layout.produced(op)) {
                if let Some(dim) = made.dims.iter().position(|pieces| pieces.contains(&piece)) {
                    let mut lies = layout.sharding(value).clone();
                    lies.dims[dim].push(piece);
                    layout.set_sharding(value, &lies);
                }
            }
        }
        Ok(())
    }
}

/// A program in which something is made again.
pub(super) struct Rewritten {
    pub(super) program: Program,
    /// The op of the program planned that each op is.
    pub(super) origins: Vec<Option<OpId>>,
}

impl Rewritten {
    /// The op of the forward pass that an op is now.
    fn first(&self, op: OpId) -> Result<OpId, String> {
        let is_it = |&&now: &&OpId| self.origins[now.index()] == Some(op);
        let first = self.program.body().ops.iter().find(is_it);
        first.copied().ok_or_else(|| format!("{op}, which begins a stage, is not there once something is made again"))
    }
}

impl OpRecipe {
    fn check(&self, program: &Program, mesh: &Mesh) -> Result<(), String> {
        let (op, results) = (self.op, &program.ops[self.op].results);
        if self.results.len() != results.len() {
            return Err(format!("{op} has {} results, {} are told", results.len(), self.results.len()));
        }
        for (&value, lies) in results.iter().zip(&self.results) {
            check_sharding(mesh, program.ty(value), lies).map_err(|reason| format!("{value} of {op} {reason}"))?;
        }
        if let Some(piece) = self.factors.iter().flat_map(|(_, pieces)| pieces).find(|piece| !mesh.has(**piece)) {
            return Err(format!("{op} is cut by piece {}, which the mesh does not have", piece.0));
        }
        Ok(())
    }

    /// The strategy, if the rule of the op allows it.
    fn strategy(&self, rule: &Rule, mesh: &Mesh) -> Result<Strategy, String> {
        let mut wanted = Strategy::whole(rule);
        for (factor, pieces) in &self.factors {
            match wanted.factors.get_mut(usize::from(*factor)) {
                Some(cut) => cut.extend(pieces.iter().copied()),
                None => {
                    let name = factor_name(usize::from(*factor));
                    return Err(format!("{} has no factor `{name}`; its rule is `{rule}`", self.op));
                }
            }
        }
        // Pieces are added as the rule allows, in whatever order of factors.
        let allowed = wanted.without(rule, mesh, PieceSet::default());
        let refused = wanted.factors.iter().zip(&allowed.factors).position(|(wanted, allowed)| wanted != allowed);
        let Some(factor) = refused else { return Ok(wanted) };
        let piece = wanted.factors[factor][allowed.factors[factor].len()];
        let refusal = allowed.may_add(rule, mesh, factor as FactorId, piece).err();
        let reason = reason(refusal.unwrap_or(Refusal::Inner));
        let (name, cut) = (factor_name(factor), mesh.describe(&wanted.factors[factor]));
        Err(format!("factor `{name}` of {} {reason}: `{cut}`; its rule is `{rule}`", self.op))
    }
}

/// Why a factor is not cut.
fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Whole => "cannot be cut",
        Refusal::Taken { .. } => "is cut by what cuts another factor",
        Refusal::Uneven => "does not divide so",
        Refusal::Inner => "is inside of one that is not cut to the end",
    }
}

/// Whether an argument is state besides parameters that every step makes anew.
pub(super) fn is_state(anatomy: &Anatomy, argument: usize) -> bool {
    anatomy.classes.get(argument) == Some(&ArgumentClass::State) && anatomy.next[argument].is_some()
}

/// Why a value cannot lie so.
fn check_sharding(mesh: &Mesh, ty: &Type, lies: &Sharding) -> Result<(), String> {
    if lies.dims.len() != ty.rank() {
        return Err(format!("has {} dimensions, {} are told", ty.rank(), lies.dims.len()));
    }
    if !lies.partial.is_empty() {
        return Err("would lie in parts of a sum".to_owned());
    }
    let mut used = PieceSet::default();
    for (dim, pieces) in lies.dims.iter().enumerate() {
        for &piece in pieces {
            if !mesh.has(piece) || used.contains(piece) {
                return Err(format!("is cut by piece {} twice, or the mesh has none such", piece.0));
            }
            used.insert(piece);
        }
        let (size, parts) = (ty.shape[dim], mesh.product(pieces));
        if parts > size.max(1) {
            return Err(format!("would be cut into {parts} parts along dimension {dim}, which has size {size}"));
        }
    }
    Ok(())
}

/// Keeps axes of devices where they are, whatever is cut in time from here on.
pub(super) fn freeze(layout: &mut Layout<'_>, pieces: PieceSet) {
    let (values, ops): (Vec<ValueId>, Vec<OpId>) =
        (layout.program.values.ids().collect(), layout.program.ops.ids().collect());
    values.into_iter().for_each(|value| layout.block(value, pieces));
    ops.into_iter().for_each(|op| layout.block_op(op, pieces));
}
