//! The text form of a program: StableHLO that jaxlib parses and that we import again.
//!
//! Ops are printed as StableHLO itself prints them, with three differences. Values are named by
//! their ids, so that a message about `%12` can be looked up in any dump. Several results are
//! listed by name (`%3, %4 = ...`). A `while` is printed in the generic form, because its short
//! form gives condition and body the same argument names, and ours have ids of their own.

mod forms;
mod function;
mod literal;
mod parts;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::{self, Write};

use super::{Op, OpId, Operation, Program, RegionId, expand_attention};
pub use function::{Surroundings, Whole, print_on_mesh};
use literal::{Elements, Real};
use parts::{
    Channel, DenseGroups, DensePairs, Fields, GlobalIds, IntegerArray, LimitedRanges, List, LocationText, Name,
    Precisions, Quoted, Signature, Types,
};

/// What [`print()`] leaves to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// Print where each op came from. Names of arguments are part of the program and always printed.
    pub locations: bool,
    pub attention: AttentionForm,
}

/// How an attention and its gradient are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionForm {
    /// One call of `@meshwright.attention` or `@meshwright.attention_grad`, which import reads back
    /// as the same op.
    CustomCall,
    /// Plain StableHLO that any engine runs: the text of what [`expand_attention`] makes, whose values
    /// have numbers of their own.
    Expanded,
}

/// The text of a program.
pub fn print(program: &Program, options: PrintOptions) -> String {
    text(program, options, None)
}

fn text(program: &Program, options: PrintOptions, around: Option<&Surroundings>) -> String {
    let program = match options.attention {
        AttentionForm::CustomCall => Cow::Borrowed(program),
        AttentionForm::Expanded => expand_attention(program),
    };
    let mut text = String::new();
    let mut printer = Printer { program: &program, locations: options.locations, around, out: &mut text, indent: 0 };
    printer.module().expect("writing to a string does not fail");
    text
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { program: self, locations: false, around: None, out: f, indent: 0 }.module()
    }
}

struct Printer<'a> {
    program: &'a Program,
    /// Whether to print where each op came from.
    locations: bool,
    around: Option<&'a Surroundings>,
    out: &'a mut dyn Write,
    /// How many levels deep the current line is.
    indent: usize,
}

impl<'a> Printer<'a> {
    fn module(&mut self) -> fmt::Result {
        let program = self.program;
        self.out.write_str("module ")?;
        if !program.name.is_empty() {
            write!(self.out, "@{} ", Name(&program.name))?;
        }
        let (partitions, replicas) = (program.partitions, program.replicas);
        writeln!(
            self.out,
            "attributes {{mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = {replicas} : i32}} {{"
        )?;
        self.indent = 1;
        if let Some(around) = self.around {
            self.mesh(around)?;
        }
        self.function()?;
        self.out.write_str("}\n")
    }

    /// The ops of a region and what it gives back, one level deeper than the current line.
    fn region_lines(&mut self, region: RegionId, terminator: &str) -> fmt::Result {
        let region = &self.program.regions[region];
        self.indent += 1;
        for &op in &region.ops {
            self.operation(op)?;
        }
        self.start_line()?;
        self.out.write_str(terminator)?;
        if !region.results.is_empty() {
            let types = Types { program: self.program, values: &region.results };
            write!(self.out, " {} : {types}", List(&region.results))?;
        }
        self.indent -= 1;
        self.out.write_str("\n")
    }

    fn start_line(&mut self) -> fmt::Result {
        for _ in 0..self.indent {
            self.out.write_str("  ")?;
        }
        Ok(())
    }

    fn operation(&mut self, id: OpId) -> fmt::Result {
        let operation = &self.program.ops[id];
        self.start_line()?;
        if !operation.results.is_empty() {
            write!(self.out, "{} = ", List(&operation.results))?;
        }
        self.form(operation)?;
        if self.locations {
            write!(self.out, " loc({})", LocationText(&self.program.locations[operation.location]))?;
        }
        self.out.write_str("\n")
    }

    /// Everything of an op between its results and its location.
    fn form(&mut self, operation: &'a Operation) -> fmt::Result {
        let program = self.program;
        let op = &operation.op;
        let name = op.name();
        let operands = List(&operation.operands);
        let results = Types { program, values: &operation.results };
        let signature = Signature { program, operation };
        match op {
            Op::AfterAll => write!(self.out, "{name} {operands} : {results}"),
            Op::AllGather(gather) => self.generic(
                operation,
                format_args!(
                    "all_gather_dim = {} : i64, {}replica_groups = {}{}",
                    gather.dim,
                    Channel(gather.collective.channel),
                    DenseGroups(&gather.collective.groups),
                    GlobalIds(gather.collective.global_ids),
                ),
            ),
            Op::AllReduce(collective) => self.generic(
                operation,
                format_args!(
                    "{}replica_groups = {}{}",
                    Channel(collective.channel),
                    DenseGroups(&collective.groups),
                    GlobalIds(collective.global_ids),
                ),
            ),
            Op::AllToAll(all) => self.generic(
                operation,
                format_args!(
                    "{}concat_dimension = {} : i64, replica_groups = {}, split_count = {} : i64, \
                     split_dimension = {} : i64",
                    Channel(all.collective.channel),
                    all.concat_dim,
                    DenseGroups(&all.collective.groups),
                    all.split_count,
                    all.split_dim,
                ),
            ),
            Op::Attention(attention) => write!(
                self.out,
                "stablehlo.custom_call @{name}({operands}) \
                 {{meshwright.causal = {}, meshwright.scale = {} : f64{}}} : {signature}",
                attention.causal,
                Real::F64(attention.scale),
                if attention.statistics { ", meshwright.statistics = true" } else { "" },
            ),
            Op::AttentionGrad(grad) => write!(
                self.out,
                "stablehlo.custom_call @{name}({operands}) \
                 {{{}meshwright.causal = {}, meshwright.scale = {} : f64}} : {signature}",
                if grad.bias_gradient { "meshwright.bias_gradient = true, " } else { "" },
                grad.causal,
                Real::F64(grad.scale),
            ),
            Op::BatchNormGrad(norm) | Op::BatchNormInference(norm) | Op::BatchNormTraining(norm) => self.generic(
                operation,
                format_args!("epsilon = {} : f32, feature_index = {} : i64", Real::F32(norm.epsilon), norm.feature_dim),
            ),
            Op::Binary(_) | Op::Unary(_) if name.starts_with("chlo.") => self.chlo(operation),
            Op::Binary(_) => self.elementwise(operation),
            Op::BitcastConvert { .. } | Op::DynamicUpdateSlice | Op::Reshape { .. } => {
                write!(self.out, "{name} {operands} : {signature}")
            }
            Op::BroadcastInDim(broadcast) => {
                write!(self.out, "{name} {operands}, dims = [{}] : {signature}", List(&broadcast.dims))
            }
            Op::Case | Op::If | Op::While => self.generic(operation, format_args!("")),
            Op::Check(check) => self.check(*check, operation),
            Op::Cholesky { lower } => {
                let lower = if *lower { ", lower = true" } else { "" };
                write!(self.out, "{name} {operands}{lower} : {}", signature.shortened())
            }
            Op::Clamp | Op::Convert { .. } => self.elementwise(operation),
            Op::CollectiveBroadcast(collective) => self.generic(
                operation,
                format_args!("{}replica_groups = {}", Channel(collective.channel), DenseGroups(&collective.groups)),
            ),
            Op::CollectivePermute(permute) => self.generic(
                operation,
                format_args!("{}source_target_pairs = {}", Channel(permute.channel), DensePairs(&permute.pairs)),
            ),
            Op::Compare { direction, order } => self.compare(*direction, *order, operation),
            Op::Complex => write!(self.out, "{name} {operands} : {results}"),
            Op::Concatenate { dim } => write!(self.out, "{name} {operands}, dim = {dim} : {signature}"),
            Op::Constant(literal) => write!(self.out, "{name} {} : {}", Elements(literal), literal.ty),
            Op::Convolution(convolution) => self.convolution(convolution, operation),
            Op::CustomCall(call) => self.custom_call(call, operation),
            Op::DotGeneral(dot) => {
                write!(self.out, "{name} {operands}")?;
                if !dot.lhs_batch.is_empty() || !dot.rhs_batch.is_empty() {
                    let (lhs, rhs) = (List(&dot.lhs_batch), List(&dot.rhs_batch));
                    write!(self.out, ", batching_dims = [{lhs}] x [{rhs}]")?;
                }
                let (lhs, rhs) = (List(&dot.lhs_contract), List(&dot.rhs_contract));
                write!(self.out, ", contracting_dims = [{lhs}] x [{rhs}]")?;
                if !dot.precision.is_empty() {
                    write!(self.out, ", precision = [{}]", Precisions { list: &dot.precision, attribute: false })?;
                }
                write!(self.out, " : {signature}")
            }
            Op::DynamicSlice { sizes } => {
                write!(self.out, "{name} {operands}, sizes = [{}] : {signature}", List(sizes))
            }
            Op::Fft { kind, lengths } => {
                write!(
                    self.out,
                    "{name} {operands}, type = {}, length = [{}] : {signature}",
                    kind.name(),
                    List(lengths)
                )
            }
            Op::Gather(gather) => {
                let numbers = Fields {
                    lists: [
                        ("offset_dims", &gather.offset_dims),
                        ("collapsed_slice_dims", &gather.collapsed_slice_dims),
                        ("operand_batching_dims", &gather.operand_batching_dims),
                        ("start_indices_batching_dims", &gather.start_indices_batching_dims),
                        ("start_index_map", &gather.start_index_map),
                    ],
                    index_vector_dim: gather.index_vector_dim,
                };
                self.generic(
                    operation,
                    format_args!(
                        "dimension_numbers = #stablehlo.gather<{numbers}>, indices_are_sorted = {}, \
                         slice_sizes = {}",
                        gather.indices_are_sorted,
                        IntegerArray(&gather.slice_sizes),
                    ),
                )
            }
            Op::Infeed(feed) => self.generic(operation, format_args!("infeed_config = {}", Quoted(&feed.config))),
            Op::Iota { dim, ty } => write!(self.out, "{name} dim = {dim} : {ty}"),
            Op::Map => {
                let rank = operation.operands.first().map_or(0, |&operand| program.shape(operand).len());
                let dims: Vec<usize> = (0..rank).collect();
                self.generic(operation, format_args!("dimensions = {}", IntegerArray(&dims)))
            }
            Op::Opaque(opaque) => self.opaque(opaque, operation),
            // The short form of an empty barrier is one of its own; the generic form has no exceptions.
            Op::OptimizationBarrier if operation.operands.is_empty() => self.generic(operation, format_args!("")),
            Op::OptimizationBarrier => write!(self.out, "{name} {operands} : {results}"),
            Op::Outfeed(feed) => self.generic(operation, format_args!("outfeed_config = {}", Quoted(&feed.config))),
            Op::Pad(pad) => write!(
                self.out,
                "{name} {operands}, low = [{}], high = [{}], interior = [{}] : {signature}",
                List(&pad.low),
                List(&pad.high),
                List(&pad.interior),
            ),
            Op::PartitionId | Op::ReplicaId => write!(self.out, "{name} : {results}"),
            Op::Recv(transfer) | Op::Send(transfer) => self.generic(
                operation,
                format_args!(
                    "channel_handle = #stablehlo.channel_handle<handle = {}, type = {}>, \
                     is_host_transfer = {}",
                    transfer.channel, transfer.channel_type, transfer.is_host_transfer,
                ),
            ),
            Op::Reduce { dims } => self.reduce(dims, operation),
            Op::ReducePrecision { exponent_bits, mantissa_bits } => write!(
                self.out,
                "{name} {operands}, format = e{exponent_bits}m{mantissa_bits} : {}",
                signature.shortened()
            ),
            Op::ReduceScatter(scatter) => self.generic(
                operation,
                format_args!(
                    "{}replica_groups = {}, scatter_dimension = {} : i64{}",
                    Channel(scatter.collective.channel),
                    DenseGroups(&scatter.collective.groups),
                    scatter.dim,
                    GlobalIds(scatter.collective.global_ids),
                ),
            ),
            Op::ReduceWindow(window) => self.generic(
                operation,
                format_args!(
                    "base_dilations = {}, padding = {}, window_dilations = {}, window_dimensions = {}, \
                     window_strides = {}",
                    IntegerArray(&window.base_dilation),
                    DensePairs(&window.padding),
                    IntegerArray(&window.window_dilation),
                    IntegerArray(&window.sizes),
                    IntegerArray(&window.strides),
                ),
            ),
            Op::Reverse { dims } => {
                write!(self.out, "{name} {operands}, dims = [{}] : {}", List(dims), signature.shortened())
            }
            Op::Rng { distribution, .. } => {
                write!(self.out, "{name} {operands}, distribution = {} : {signature}", distribution.name())
            }
            Op::RngBitGenerator { algorithm, .. } => {
                write!(self.out, "{name} {operands}, algorithm = {} : {signature}", algorithm.name())
            }
            Op::Scatter(scatter) => {
                let numbers = Fields {
                    lists: [
                        ("update_window_dims", &scatter.update_window_dims),
                        ("inserted_window_dims", &scatter.inserted_window_dims),
                        ("input_batching_dims", &scatter.input_batching_dims),
                        ("scatter_indices_batching_dims", &scatter.scatter_indices_batching_dims),
                        ("scatter_dims_to_operand_dims", &scatter.scatter_dims_to_operand_dims),
                    ],
                    index_vector_dim: scatter.index_vector_dim,
                };
                self.generic(
                    operation,
                    format_args!(
                        "indices_are_sorted = {}, scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, \
                         unique_indices = {}",
                        scatter.indices_are_sorted, scatter.unique_indices,
                    ),
                )
            }
            Op::Select => self.select(operation),
            Op::SelectAndScatter(window) => self.generic(
                operation,
                format_args!(
                    "padding = {}, window_dimensions = {}, window_strides = {}",
                    DensePairs(&window.padding),
                    IntegerArray(&window.window),
                    IntegerArray(&window.strides),
                ),
            ),
            Op::Slice(slice) => write!(self.out, "{name} {operands} [{}] : {signature}", LimitedRanges(slice)),
            Op::Sort { dim, stable } => {
                self.generic(operation, format_args!("dimension = {dim} : i64, is_stable = {stable}"))
            }
            Op::TopK { k } => {
                let operand_types = Types { program, values: &operation.operands };
                write!(self.out, "{name}({operands}, k = {k}) : {operand_types} -> ({results})")
            }
            Op::Transpose { permutation } => {
                write!(self.out, "{name} {operands}, dims = [{}] : {signature}", List(permutation))
            }
            Op::TriangularSolve(solve) => self.generic(
                operation,
                format_args!(
                    "left_side = {}, lower = {}, transpose_a = #stablehlo<transpose {}>, unit_diagonal = {}",
                    solve.left_side,
                    solve.lower,
                    solve.transpose_a.name(),
                    solve.unit_diagonal,
                ),
            ),
            Op::Unary(_) => self.elementwise(operation),
        }
    }
}
