//! The program: every op with how it is cut, by module.

use std::collections::BTreeMap;

use meshwright::plan::{OpRecipe, Recipe};
use meshwright::profile::work;
use meshwright::program::{Anatomy, ArgumentClass, Definition, Id, OpId, Program};
use meshwright::shard::{FactorId, Layout, Mesh, Pieces, Rule, Sharding, Strategy, factor_name, rule};
use serde::Serialize;

use super::tables::Tables;
use crate::names::names;
use crate::place::{op_name, position, short_type};
use crate::plan::{ClassPart, unfold_name};

/// Axes, and the prime factors that they are made of.
#[derive(Debug, Serialize)]
pub(super) struct MeshPart {
    axes: Vec<AxisPart>,
    pieces: Vec<PiecePart>,
    devices: usize,
}

#[derive(Debug, Serialize)]
struct AxisPart {
    name: String,
    size: usize,
    time: bool,
}

#[derive(Debug, Serialize)]
struct PiecePart {
    axis: usize,
    size: usize,
    stride: usize,
}

impl MeshPart {
    pub(super) fn new(mesh: &Mesh) -> MeshPart {
        let axis =
            |axis: &meshwright::shard::Axis| AxisPart { name: axis.name.clone(), size: axis.size, time: axis.temporal };
        let piece = |piece| PiecePart { axis: mesh.axis_of(piece), size: mesh.size(piece), stride: mesh.stride(piece) };
        MeshPart {
            axes: mesh.axes.iter().map(axis).collect(),
            pieces: mesh.all_pieces().map(piece).collect(),
            devices: mesh.devices(),
        }
    }
}

/// Columns, one entry for every op in the order of the program.
#[derive(Debug, Default, Serialize)]
pub(super) struct ProgramPart {
    name: Vec<u32>,
    module: Vec<u32>,
    /// 0 forward, 1 backward, 2 update.
    phase: Vec<u8>,
    /// Of the first result.
    #[serde(rename = "type")]
    ty: Vec<u32>,
    /// How the first result comes out and how it lies then, by number of a sharding; -1 where nothing is said.
    made: Vec<i32>,
    lies: Vec<i32>,
    rule: Vec<u32>,
    /// What cuts its factors.
    cut: Vec<u32>,
    /// Where it is in the source.
    source: Vec<u32>,
    scope: Vec<u32>,
    /// The group that was decided about as one, or -1.
    group: Vec<i32>,
    flops: Vec<u64>,
    /// Of the first result, whole.
    bytes: Vec<usize>,
    /// How many operands there are, and for all of them in a row how many ops before the op each was made; 0 and less
    /// for an argument, by number.
    operands: Vec<u32>,
    makers: Vec<i64>,
    shardings: Vec<ShardingPart>,
    groups: Vec<ClassPart>,
}

#[derive(Debug, Serialize)]
pub(super) struct ShardingPart {
    text: String,
    dims: Vec<Vec<u8>>,
    partial: Vec<u8>,
    reduction: &'static str,
}

/// Shardings by number.
#[derive(Debug, Default)]
pub(super) struct Shardings {
    list: Vec<ShardingPart>,
    numbers: BTreeMap<String, i32>,
}

impl Shardings {
    pub(super) fn number(&mut self, mesh: &Mesh, lies: &Sharding) -> i32 {
        let text = lies.describe(mesh);
        if let Some(&number) = self.numbers.get(&text) {
            return number;
        }
        let pieces = |pieces: &Pieces| pieces.iter().map(|piece| piece.0).collect();
        let number = self.list.len() as i32;
        self.numbers.insert(text.clone(), number);
        self.list.push(ShardingPart {
            text,
            dims: lies.dims.iter().map(pieces).collect(),
            partial: pieces(&lies.partial),
            reduction: lies.reduction.name(),
        });
        number
    }
}

/// How ops are cut: by a layout, or by the recipe of a plan.
pub(super) enum Cuts<'c, 'p> {
    Layout(&'c Layout<'p>),
    Recipe(&'c Recipe),
    /// Nothing is.
    Whole,
}

/// How an op is cut.
struct Cut {
    factors: Vec<(FactorId, Pieces)>,
    made: Option<Sharding>,
    lies: Option<Sharding>,
}

/// What is shown.
pub(super) struct Shown<'s, 'p> {
    pub(super) program: &'p Program,
    pub(super) anatomy: &'s Anatomy,
    pub(super) mesh: &'s Mesh,
    pub(super) cuts: Cuts<'s, 'p>,
    pub(super) groups: Groups<'s>,
}

/// Groups of ops that were decided about as one.
#[derive(Default)]
pub(super) struct Groups<'s> {
    pub(super) parts: Vec<ClassPart>,
    /// The ops of each, where they are known one by one; else they are found by place.
    pub(super) ops: Option<Vec<Vec<&'s [OpId]>>>,
}

pub(super) fn program_part(tables: &mut Tables, shardings: &mut Shardings, shown: Shown<'_, '_>) -> ProgramPart {
    let Shown { program, anatomy, mesh, ref cuts, .. } = shown;
    let places = tables.places(program);
    let trips = program.trips();
    let order = in_order(program);
    let mut numbers = vec![-1i64; program.ops.len()];
    order.iter().enumerate().for_each(|(number, op)| numbers[op.index()] = number as i64);
    let group_of = shown.groups.by_op(program, anatomy, &order);
    let argument_of = arguments_by_value(program);
    let finder = Finder::new(program, mesh, cuts);
    let mut part = ProgramPart::default();
    for (number, &op) in order.iter().enumerate() {
        let operation = &program.ops[op];
        let location = &program.locations[operation.location];
        let rule = finder.rule(op);
        let Cut { factors, made, lies } = finder.cut(op, &rule);
        let cut: Vec<String> = factors
            .iter()
            .filter(|(_, pieces)| !pieces.is_empty())
            .map(|(factor, pieces)| format!("{} by {}", factor_name(usize::from(*factor)), mesh.describe(pieces)))
            .collect();
        let result = operation.results.first().map(|&value| program.ty(value));
        let strings = &mut tables.strings;
        part.name.push(strings.number(op_name(program, op)));
        part.module.push(places[operation.location.index()]);
        part.phase.push(anatomy.phase(op) as u8);
        part.ty.push(strings.number(&result.map(short_type).unwrap_or_default()));
        part.made.push(made.map_or(-1, |lies| shardings.number(mesh, &lies)));
        part.lies.push(lies.map_or(-1, |lies| shardings.number(mesh, &lies)));
        part.rule.push(strings.number(&rule.to_string()));
        part.cut.push(strings.number(&cut.join(", ")));
        part.source.push(strings.number(&position(location).unwrap_or_default()));
        part.scope.push(strings.number(&location.scope));
        part.group.push(group_of[op.index()]);
        part.flops.push((work(program, op).total() * trips.of_op(op) as f64) as u64);
        part.bytes.push(result.map_or(0, meshwright::program::Type::bytes));
        part.operands.push(operation.operands.len() as u32);
        for &operand in &operation.operands {
            let maker = program.producer(operand).map(|maker| numbers[maker.index()]).filter(|&maker| maker >= 0);
            part.makers.push(match maker {
                Some(maker) => number as i64 - maker,
                None => -argument_of[operand.index()],
            });
        }
    }
    part.groups = shown.groups.parts;
    part
}

impl ProgramPart {
    pub(super) fn with_shardings(self, shardings: Shardings) -> ProgramPart {
        ProgramPart { shardings: shardings.list, ..self }
    }
}

/// The ops of the body and of the loops and branches in it, in the order of the text.
fn in_order(program: &Program) -> Vec<OpId> {
    fn walk(program: &Program, region: meshwright::program::RegionId, order: &mut Vec<OpId>) {
        for &op in &program.regions[region].ops {
            order.push(op);
            let operation = &program.ops[op];
            use meshwright::program::Op::{Case, If, While};
            // Regions of all others are functions of numbers.
            if matches!(operation.op, Case | If | While) {
                operation.regions.iter().for_each(|&inner| walk(program, inner, order));
            }
        }
    }
    let mut order = Vec::with_capacity(program.ops.len());
    walk(program, program.body, &mut order);
    order
}

/// For every value the argument of the step that it is; those of loops count as the first.
fn arguments_by_value(program: &Program) -> Vec<i64> {
    let mut arguments = vec![0; program.values.len()];
    for (id, value) in program.values.iter() {
        if let Definition::Argument { region, index } = value.definition
            && region == program.body
        {
            arguments[id.index()] = i64::from(index);
        }
    }
    arguments
}

/// Finds how ops are cut.
struct Finder<'f, 'p> {
    program: &'p Program,
    mesh: &'f Mesh,
    cuts: &'f Cuts<'f, 'p>,
    recipes: Vec<Option<&'f OpRecipe>>,
}

impl<'f, 'p> Finder<'f, 'p> {
    fn new(program: &'p Program, mesh: &'f Mesh, cuts: &'f Cuts<'f, 'p>) -> Finder<'f, 'p> {
        let mut recipes = vec![None; program.ops.len()];
        if let Cuts::Recipe(recipe) = cuts {
            recipe.ops.iter().for_each(|recipe| recipes[recipe.op.index()] = Some(recipe));
        }
        Finder { program, mesh, cuts, recipes }
    }

    fn rule(&self, op: OpId) -> Rule {
        match self.cuts {
            Cuts::Layout(layout) => layout.rule(op).clone(),
            Cuts::Recipe(_) | Cuts::Whole => rule(self.program, op),
        }
    }

    fn cut(&self, op: OpId, rule: &Rule) -> Cut {
        let result = self.program.ops[op].results.first();
        let whole = result.map(|&value| Sharding::whole(self.program.shape(value).len()));
        match self.cuts {
            Cuts::Layout(layout) => {
                let factors = layout.strategy(op).factors.iter().enumerate();
                Cut {
                    factors: factors.map(|(factor, pieces)| (factor as FactorId, *pieces)).collect(),
                    made: layout.produced(op).into_iter().next(),
                    lies: result.map(|&value| layout.sharding(value).clone()),
                }
            }
            Cuts::Recipe(_) => match self.recipes[op.index()] {
                Some(recipe) => {
                    let mut strategy = Strategy::whole(rule);
                    for (factor, pieces) in &recipe.factors {
                        strategy.factors[usize::from(*factor)] = *pieces;
                    }
                    let made = rule.results.first().map(|labels| strategy.result(rule, self.mesh, labels));
                    Cut { factors: recipe.factors.clone(), made, lies: recipe.results.first().cloned() }
                }
                None => Cut { factors: Vec::new(), made: whole.clone(), lies: whole },
            },
            Cuts::Whole => Cut { factors: Vec::new(), made: None, lies: None },
        }
    }
}

impl Groups<'_> {
    fn by_op(&self, program: &Program, anatomy: &Anatomy, order: &[OpId]) -> Vec<i32> {
        let mut groups = vec![-1; program.ops.len()];
        if let Some(lists) = &self.ops {
            for (number, bundles) in lists.iter().enumerate() {
                bundles.iter().copied().flatten().for_each(|op| groups[op.index()] = number as i32);
            }
            return groups;
        }
        let mut known: BTreeMap<(String, &str), Vec<i32>> = BTreeMap::new();
        for (number, part) in self.parts.iter().enumerate() {
            for scope in part.scopes.iter().flat_map(|scope| unfold_name(scope)) {
                known.entry((scope, part.phase.as_str())).or_default().push(number as i32);
            }
        }
        for &op in order {
            let place = crate::place::op_place(program, op).unwrap_or_default();
            let here = known.get(&(place, crate::plan::phase_name(anatomy.phase(op))));
            let name = op_name(program, op);
            let has = |number: &&i32| self.parts[**number as usize].ops.iter().any(|known| known == name);
            groups[op.index()] = here.and_then(|numbers| numbers.iter().find(has)).copied().unwrap_or(-1);
        }
        groups
    }
}

/// Columns, one entry for every argument of the step.
#[derive(Debug, Default, Serialize)]
pub(super) struct ArgumentsPart {
    name: Vec<u32>,
    #[serde(rename = "type")]
    ty: Vec<u32>,
    role: Vec<u32>,
    lies: Vec<i32>,
    /// Of a device's part.
    bytes: Vec<usize>,
}

/// What an argument is for.
pub(super) fn role(classes: &[ArgumentClass], argument: usize) -> &'static str {
    match classes.get(argument) {
        Some(ArgumentClass::Parameter) => "parameter",
        Some(ArgumentClass::State) => "state",
        Some(ArgumentClass::Input) | None => "input",
    }
}

pub(super) fn arguments_part(
    tables: &mut Tables,
    shardings: &mut Shardings,
    program: &Program,
    classes: &[ArgumentClass],
    mesh: &Mesh,
    stored: &[Sharding],
) -> ArgumentsPart {
    let names = names("argument", program.arguments.iter().map(|argument| argument.name.as_str()));
    let mut part = ArgumentsPart::default();
    for (number, (&value, name)) in program.body().arguments.iter().zip(&names).enumerate() {
        let (ty, lies) = (program.ty(value), &stored[number]);
        part.name.push(tables.strings.number(name));
        part.ty.push(tables.strings.number(&short_type(ty)));
        part.role.push(tables.strings.number(role(classes, number)));
        part.lies.push(shardings.number(mesh, lies));
        part.bytes.push(lies.local_type(mesh, ty).bytes());
    }
    part
}
