//! From the file of a plan to what it says about a model.

use meshwright::cluster::{Cluster, parse_file};
use meshwright::codes::Code;
use meshwright::lower::Movement;
use meshwright::pipeline::{Pipelined, Schedule, Staging};
use meshwright::plan::{Again, OpRecipe, Recipe, Split};
use meshwright::program::{OpId, Program, ValueId};
use meshwright::shard::{FactorId, Mesh, Sharding, factor_name};
use meshwright::simulate::{Engine, Runner, engine, movement_seconds};
use meshwright::tactics::Partitioned;

use super::file::{NodesPart, PlanFile, StagesPart};
use super::fingerprint::differences;
use super::ranges::unfold;
use super::write::cluster_part;
use crate::problem::Problem;

/// A plan and the model that it is for.
#[derive(Debug)]
pub struct AppliedPlan {
    /// The name of the file.
    name: String,
    file: PlanFile,
    pub recipe: Recipe,
    /// What the plan was made for, as far as that was told.
    cluster: Cluster,
    engine: &'static Engine,
}

impl AppliedPlan {
    /// Holds the plan of a file against a program as it is planned. One that is for another is refused.
    pub fn new(name: &str, file: PlanFile, program: &Program) -> Result<AppliedPlan, Problem> {
        let name = name.to_owned();
        let told = differences(&file.model, &file.arguments, program);
        if !told.is_empty() {
            let message = format!("`{name}` is a plan for another program: {}", told.join("; "));
            return Err(Problem::new(Code::OtherProgram, message)
                .hint(format!("plan again, or give the model as it was: {}", given(&file))));
        }
        let wrong = |reason: String| Problem::new(Code::PlanFile, format!("cannot use the plan `{name}`: {reason}"));
        let recipe = recipe(&file, program).map_err(wrong)?;
        let text = file.cluster.file.join("\n");
        let cluster = parse_file(&text).map_err(|error| wrong(format!("its cluster: {}", error.message)))?;
        let engine = engine(&file.engine).ok_or_else(|| wrong(format!("there is no engine `{}`", file.engine)))?;
        Ok(AppliedPlan { name, file, recipe, cluster, engine })
    }

    /// Lowers the program as the plan says, with the prices of the cluster that it was made for, so that it comes out
    /// the same wherever that is done.
    pub fn partition(&self, program: &Program) -> Result<Partitioned, String> {
        let runner = self.runner();
        let price = move |mesh: &Mesh, movement: &Movement<'_>| movement_seconds(runner, mesh, movement);
        self.recipe.partition(program, &price)
    }

    /// The same for a plan that cuts the model into stages.
    pub fn pipeline(&self, program: &Program) -> Result<Pipelined, String> {
        let runner = self.runner();
        let price = move |mesh: &Mesh, movement: &Movement<'_>| movement_seconds(runner, mesh, movement);
        self.recipe.pipeline(program, &price)
    }

    fn runner(&self) -> Runner<'_> {
        Runner { cluster: &self.cluster, device: self.cluster.device(0), engine: self.engine }
    }

    /// How many stages there are.
    pub fn stage_count(&self) -> usize {
        self.recipe.staging.as_ref().map_or(1, Staging::stages)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the plan was made for.
    pub fn file(&self) -> &PlanFile {
        &self.file
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn engine(&self) -> &'static Engine {
        self.engine
    }

    /// Refuses other devices than the plan is for. Gives what there is to say otherwise.
    pub fn check_cluster(&self, cluster: &Cluster) -> Result<Option<String>, String> {
        let (planned, given) = (&self.file.cluster, cluster_part(cluster));
        let shape = |nodes: &NodesPart| format!("{}x{}x{}", nodes.count, nodes.devices, nodes.device);
        let shapes = |nodes: &[NodesPart]| nodes.iter().map(shape).collect::<Vec<_>>().join(" and ");
        let (wanted, found) = (shapes(&planned.nodes), shapes(&given.nodes));
        if wanted != found {
            return Err(format!("`{}` is a plan for `{}`: {wanted}, not {found}", self.name, planned.name));
        }
        let is_same = planned.file.iter().skip(1).eq(given.file.iter().skip(1));
        Ok((!is_same).then(|| format!("`{}` has other numbers than the cluster of the plan", given.name)))
    }
}

/// The model as it was given.
pub fn given(file: &PlanFile) -> String {
    let settings: Vec<String> = file.model.settings.iter().map(|setting| format!(" --set {setting}")).collect();
    format!("`{}{}`", file.model.name, settings.concat())
}

/// What a file says about a program, which checks it when it is lowered.
pub(super) fn recipe(file: &PlanFile, program: &Program) -> Result<Recipe, String> {
    let mesh = if file.mesh.is_empty() { Mesh::new(Vec::new())? } else { Mesh::parse(&file.mesh)? };
    let (ops, values) = (program.ops.len() as u32, program.values.len() as u32);
    let lies = |text: &String| Sharding::parse(text, &mesh);
    let mut recipes: Vec<OpRecipe> = Vec::new();
    for strategy in &file.strategies {
        let mut factors: Vec<(FactorId, _)> = Vec::new();
        for (name, pieces) in &strategy.factors {
            factors.push((factor_named(name)?, mesh.parse_pieces(pieces)?));
        }
        factors.sort_by_key(|(factor, _)| *factor);
        let results = strategy.results.iter().map(lies).collect::<Result<Vec<_>, _>>()?;
        for op in unfold(&strategy.ops, ops)? {
            recipes.push(OpRecipe { op: OpId(op), factors: factors.clone(), results: results.clone() });
        }
    }
    recipes.sort_by_key(|recipe| recipe.op);
    let mut again: Vec<Again> = Vec::new();
    for part in &file.recomputed {
        let (ops, reads) = (unfold(&part.ops, ops)?, unfold(&part.reads, values)?);
        again.push(Again { ops: ops.into_iter().map(OpId).collect(), reads: reads.into_iter().map(ValueId).collect() });
    }
    let mut splits: Vec<Split> = Vec::new();
    for part in &file.splits {
        let mut cut: Vec<(OpId, FactorId)> = Vec::new();
        for (name, numbers) in &part.factors {
            let factor = factor_named(name)?;
            cut.extend(unfold(numbers, ops)?.into_iter().map(|op| (OpId(op), factor)));
        }
        cut.sort_unstable();
        splits.push(Split { slices: part.slices, ops: cut });
    }
    let arguments = file.arguments.iter().map(|argument| lies(&argument.stored)).collect::<Result<_, _>>()?;
    let held = file.arguments.iter().enumerate().filter(|(_, argument)| argument.on_host).map(|(number, _)| number);
    let staging = file.stages.as_ref().map(|part| staging(part, &mesh)).transpose()?;
    Ok(Recipe {
        mesh,
        microbatches: file.microbatches,
        is_eager: file.eager,
        arguments,
        ops: recipes,
        again,
        splits,
        held: held.collect(),
        staging,
    })
}

fn staging(part: &StagesPart, mesh: &Mesh) -> Result<Staging, String> {
    let known = Schedule::ALL.iter().find(|(name, _)| *name == part.schedule);
    let (_, schedule) = known.ok_or_else(|| format!("there is no schedule `{}`", part.schedule))?;
    let starts = part.starts.iter().map(|&op| OpId(op)).collect();
    if !part.meshes.is_empty() && part.meshes.len() != part.count {
        return Err(format!("it tells the meshes of {} stages, and there are {}", part.meshes.len(), part.count));
    }
    let lacks = part.meshes.iter().map(|text| lacked_axes(text, mesh)).collect::<Result<_, _>>()?;
    Ok(Staging { schedule: *schedule, chunks: part.chunks, starts, lacks })
}

/// The axes of a mesh that the mesh of a stage lacks.
fn lacked_axes(text: &str, mesh: &Mesh) -> Result<Vec<usize>, String> {
    let own = Mesh::parse(text)?;
    let is_lacked = |axis: &usize| own.axes.get(*axis).is_some_and(|own| own.size == 1 && mesh.axes[*axis].size > 1);
    let lacked: Vec<usize> = (0..mesh.axes.len()).filter(is_lacked).collect();
    if mesh.lacking(&lacked).axes != own.axes {
        return Err(format!("`{text}` is no mesh of a stage: such a one has the axes of `{mesh}`, some with size 1"));
    }
    Ok(lacked)
}

fn factor_named(name: &str) -> Result<FactorId, String> {
    let factor = (0..FactorId::MAX).find(|&factor| factor_name(usize::from(factor)) == name);
    factor.ok_or_else(|| format!("`{name}` is no name of a factor"))
}
