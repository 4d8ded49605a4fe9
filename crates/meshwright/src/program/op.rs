//! The closed set of operations.
//!
//! An op holds everything but its operands that decides its result types, so that result types
//! are a function of the op, its operand types and its regions (see `infer`).

use std::cmp::Ordering;
use std::sync::Arc;

use smallvec::SmallVec;

use super::literal::Literal;
use super::types::{DType, Dims, Shape, Type};

/// One operation's meaning. Semantics are those of the StableHLO specification, except for
/// [`Op::Attention`], [`Op::AttentionGrad`], [`Op::Check`] and [`Op::Opaque`], which say their own.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    AfterAll,
    AllGather(Box<AllGather>),
    /// One region: the reduction.
    AllReduce(Box<Collective>),
    AllToAll(Box<AllToAll>),
    Attention(Box<Attention>),
    AttentionGrad(Box<AttentionGrad>),
    BatchNormGrad(BatchNorm),
    BatchNormInference(BatchNorm),
    BatchNormTraining(BatchNorm),
    Binary(Binary),
    BitcastConvert {
        dtype: DType,
    },
    BroadcastInDim(Box<BroadcastInDim>),
    /// One region per branch.
    Case,
    Check(Check),
    Cholesky {
        lower: bool,
    },
    Clamp,
    CollectiveBroadcast(Box<Collective>),
    CollectivePermute(Box<CollectivePermute>),
    Compare {
        direction: Direction,
        order: Order,
    },
    Complex,
    Concatenate {
        dim: usize,
    },
    Constant(Box<Literal>),
    Convert {
        dtype: DType,
    },
    Convolution(Box<Convolution>),
    CustomCall(Box<CustomCall>),
    DotGeneral(Box<DotGeneral>),
    DynamicSlice {
        sizes: Shape,
    },
    DynamicUpdateSlice,
    Fft {
        kind: FftKind,
        lengths: Shape,
    },
    Gather(Box<Gather>),
    /// Two regions: the branch when true, the branch when false.
    If,
    Infeed(Box<Feed>),
    Iota {
        dim: usize,
        ty: Box<Type>,
    },
    /// One region: the scalar function.
    Map,
    /// An op outside the set: kept whole, with a warning at import.
    Opaque(Box<Opaque>),
    OptimizationBarrier,
    Outfeed(Box<Feed>),
    Pad(Box<Pad>),
    PartitionId,
    Recv(Box<Transfer>),
    /// One region: the reduction.
    Reduce {
        dims: Dims,
    },
    ReducePrecision {
        exponent_bits: u32,
        mantissa_bits: u32,
    },
    /// One region: the reduction.
    ReduceScatter(Box<ReduceScatter>),
    /// One region: the reduction.
    ReduceWindow(Box<Window>),
    ReplicaId,
    Reshape {
        shape: Shape,
    },
    Reverse {
        dims: Dims,
    },
    Rng {
        distribution: Distribution,
        shape: Shape,
    },
    RngBitGenerator {
        algorithm: Algorithm,
        ty: Box<Type>,
    },
    /// One region: the update.
    Scatter(Box<Scatter>),
    Select,
    /// Two regions: select, scatter.
    SelectAndScatter(Box<SelectAndScatter>),
    Send(Box<Transfer>),
    Slice(Box<Slice>),
    /// One region: the comparison.
    Sort {
        dim: usize,
        stable: bool,
    },
    /// `chlo.top_k`: the `k` largest along the last dimension and their positions.
    TopK {
        k: usize,
    },
    Transpose {
        permutation: Dims,
    },
    TriangularSolve(TriangularSolve),
    Unary(Unary),
    /// Two regions: condition, body.
    While,
}

macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($variant,)* }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            pub const NAMES: &'static [&'static str] = &[$($text,)*];

            /// The name in the text form.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            pub fn from_name(name: &str) -> Option<$name> {
                match name { $($text => Some($name::$variant),)* _ => None }
            }
        }
    };
}

named_enum! {
    /// Elementwise ops of one operand.
    Unary {
        Abs = "stablehlo.abs",
        Acos = "chlo.acos",
        Acosh = "chlo.acosh",
        Asin = "chlo.asin",
        Asinh = "chlo.asinh",
        Atan = "chlo.atan",
        Atanh = "chlo.atanh",
        BesselI1e = "chlo.bessel_i1e",
        Cbrt = "stablehlo.cbrt",
        Ceil = "stablehlo.ceil",
        Conj = "chlo.conj",
        Cosh = "chlo.cosh",
        Cosine = "stablehlo.cosine",
        CountLeadingZeros = "stablehlo.count_leading_zeros",
        Digamma = "chlo.digamma",
        Erf = "chlo.erf",
        ErfInv = "chlo.erf_inv",
        Erfc = "chlo.erfc",
        Exponential = "stablehlo.exponential",
        ExponentialMinusOne = "stablehlo.exponential_minus_one",
        Floor = "stablehlo.floor",
        Imag = "stablehlo.imag",
        IsFinite = "stablehlo.is_finite",
        IsInf = "chlo.is_inf",
        IsNegInf = "chlo.is_neg_inf",
        IsPosInf = "chlo.is_pos_inf",
        Lgamma = "chlo.lgamma",
        Log = "stablehlo.log",
        LogPlusOne = "stablehlo.log_plus_one",
        Logistic = "stablehlo.logistic",
        Negate = "stablehlo.negate",
        Not = "stablehlo.not",
        PopulationCount = "stablehlo.popcnt",
        Real = "stablehlo.real",
        RoundNearestAfz = "stablehlo.round_nearest_afz",
        RoundNearestEven = "stablehlo.round_nearest_even",
        Rsqrt = "stablehlo.rsqrt",
        Sign = "stablehlo.sign",
        Sine = "stablehlo.sine",
        Sinh = "chlo.sinh",
        Sqrt = "stablehlo.sqrt",
        Square = "chlo.square",
        Tan = "stablehlo.tan",
        Tanh = "stablehlo.tanh",
    }
}

named_enum! {
    /// Elementwise ops of two operands of the same type.
    Binary {
        Add = "stablehlo.add",
        And = "stablehlo.and",
        Atan2 = "stablehlo.atan2",
        Divide = "stablehlo.divide",
        Maximum = "stablehlo.maximum",
        Minimum = "stablehlo.minimum",
        Multiply = "stablehlo.multiply",
        NextAfter = "chlo.next_after",
        Or = "stablehlo.or",
        Polygamma = "chlo.polygamma",
        Power = "stablehlo.power",
        Remainder = "stablehlo.remainder",
        ShiftLeft = "stablehlo.shift_left",
        ShiftRightArithmetic = "stablehlo.shift_right_arithmetic",
        ShiftRightLogical = "stablehlo.shift_right_logical",
        Subtract = "stablehlo.subtract",
        Xor = "stablehlo.xor",
        Zeta = "chlo.zeta",
    }
}

named_enum! {
    /// What a comparison asks.
    Direction {
        Equal = "EQ",
        GreaterOrEqual = "GE",
        Greater = "GT",
        LessOrEqual = "LE",
        Less = "LT",
        NotEqual = "NE",
    }
}

named_enum! {
    /// The order a comparison is made in. `Natural` is the order of the element type.
    Order {
        Natural = "NOTYPE",
        Float = "FLOAT",
        TotalOrder = "TOTALORDER",
        Signed = "SIGNED",
        Unsigned = "UNSIGNED",
    }
}

named_enum! {
    FftKind {
        Fft = "FFT",
        Ifft = "IFFT",
        Rfft = "RFFT",
        Irfft = "IRFFT",
    }
}

named_enum! {
    Distribution {
        Normal = "NORMAL",
        Uniform = "UNIFORM",
    }
}

named_enum! {
    Algorithm {
        Default = "DEFAULT",
        Philox = "PHILOX",
        ThreeFry = "THREE_FRY",
    }
}

named_enum! {
    /// How precisely an engine multiplies matrices; no effect on the meaning.
    Precision {
        Default = "DEFAULT",
        High = "HIGH",
        Highest = "HIGHEST",
    }
}

named_enum! {
    /// How the triangular matrix is read.
    TransposeA {
        None = "NO_TRANSPOSE",
        Transpose = "TRANSPOSE",
        Adjoint = "ADJOINT",
    }
}

impl Direction {
    /// Whether two things that compare so fulfil what is asked.
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Direction::Equal => ordering.is_eq(),
            Direction::Greater => ordering.is_gt(),
            Direction::GreaterOrEqual => ordering.is_ge(),
            Direction::Less => ordering.is_lt(),
            Direction::LessOrEqual => ordering.is_le(),
            Direction::NotEqual => ordering.is_ne(),
        }
    }
}

/// Which devices take part in a collective, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// One list of ids per group. Programs for many devices have thousands of collectives and few such lists.
    pub groups: Arc<[Vec<i64>]>,
    /// Names the collective across devices; 0 means none.
    pub channel: i64,
    /// Ids in `groups` are flattened replica and partition ids.
    pub global_ids: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AllGather {
    pub dim: usize,
    /// How many times larger `dim` is in the results.
    pub factor: usize,
    pub collective: Collective,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AllToAll {
    pub split_dim: usize,
    pub concat_dim: usize,
    pub split_count: usize,
    pub collective: Collective,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CollectivePermute {
    pub pairs: Vec<(i64, i64)>,
    pub channel: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReduceScatter {
    pub dim: usize,
    /// How many times smaller `dim` is in the result.
    pub factor: usize,
    pub collective: Collective,
}

/// Scaled dot-product attention: `softmax(scale * query * key^T + bias, masked) * value`.
///
/// Operands: `query` (batch, heads, queries, width), `key` (batch, groups, keys, width), `value`
/// (batch, groups, keys, depth), then, where `bias` is set, a tensor of the query's element type
/// (or `bool`: false masks the position out) whose dimensions are those of the scores (batch,
/// heads, queries, keys) or 1. Heads are a multiple of groups; head `h` reads group
/// `h / (heads / groups)`. The softmax is computed in f32 or wider. A query that sees no key gets
/// zeros.
///
/// Results: the output (batch, heads, queries, depth), then, where `statistics` is set, (batch,
/// heads, queries) of type f32 (f64 for f64 queries): for each query the natural logarithm of the
/// sum of the exponentials of its scaled, biased and masked scores, which is minus infinity where
/// it sees no key. The gradient takes them, so that it need not sum again.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    pub scale: f64,
    /// Query `q` sees keys up to `q + keys - queries`.
    pub causal: bool,
    pub bias: bool,
    pub statistics: bool,
}

/// The gradients of an [`Attention`] of the same `scale`, `causal` and `bias`.
///
/// Operands: `query`, `key`, `value` and, where `bias` is set, the bias, as the attention has them;
/// then its output, its statistics, and the gradient of its output, of the output's type. For each
/// head and query, with `scores` as in the attention:
///
/// ```text
/// weights         = exp(scores - statistics)       zeros for a query that sees no key
/// score_gradients = weights * (output_gradient * value^T - sum(output * output_gradient))
/// query_gradient  = scale * score_gradients * key
/// key_gradient    = scale * score_gradients^T * query
/// value_gradient  = weights^T * output_gradient
/// ```
///
/// Results: the gradients of query, key and value, each of its operand's type. Those of a key and
/// of a value are sums over the queries of all heads that read them, so over the heads of their
/// group too. Where `bias_gradient` is set, which a float bias allows, the score gradients follow as
/// the gradient of the bias, of the bias's type: summed along the dimensions in which the bias has
/// size 1. Nothing flows through the statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionGrad {
    pub scale: f64,
    pub causal: bool,
    pub bias: bool,
    pub bias_gradient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    pub epsilon: f32,
    pub feature_dim: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BroadcastInDim {
    pub shape: Shape,
    /// For each dimension of the operand, the dimension of the result it becomes.
    pub dims: Dims,
}

/// Compares two operands and has no results; a failed check fails the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    /// Within an absolute tolerance.
    AlmostEqual { tolerance: f64 },
    /// At least `min_ulps` and at most `max_ulps` representable numbers apart.
    Close { min_ulps: u64, max_ulps: u64 },
    /// The same numbers.
    Equal,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Sizes and positions of the window's dimensions.
    pub strides: Shape,
    pub padding: SmallVec<[(i64, i64); 3]>,
    pub lhs_dilation: Shape,
    pub rhs_dilation: Shape,
    pub reversal: SmallVec<[bool; 4]>,
    pub input_batch: usize,
    pub input_feature: usize,
    pub input_spatial: Dims,
    pub kernel_input_feature: usize,
    pub kernel_output_feature: usize,
    pub kernel_spatial: Dims,
    pub output_batch: usize,
    pub output_feature: usize,
    pub output_spatial: Dims,
    pub feature_groups: usize,
    pub batch_groups: usize,
    pub precision: SmallVec<[Precision; 2]>,
    pub dtype: DType,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CustomCall {
    pub target: String,
    pub has_side_effect: bool,
    pub result_types: Vec<Type>,
    /// Every other attribute in the text form, by name, such as `("backend_config", "\"\"")`.
    pub attributes: Vec<(String, String)>,
    /// The user's sharding rule, such as `(i j, j k) -> (i k)`, where one was given.
    pub rule: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DotGeneral {
    pub lhs_batch: Dims,
    pub rhs_batch: Dims,
    pub lhs_contract: Dims,
    pub rhs_contract: Dims,
    pub precision: SmallVec<[Precision; 2]>,
    /// Element type of the result, which may be wider than that of the operands.
    pub dtype: DType,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    pub config: String,
    pub result_types: Vec<Type>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Gather {
    pub offset_dims: Dims,
    pub collapsed_slice_dims: Dims,
    pub operand_batching_dims: Dims,
    pub start_indices_batching_dims: Dims,
    pub start_index_map: Dims,
    pub index_vector_dim: usize,
    pub slice_sizes: Shape,
    pub indices_are_sorted: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Opaque {
    pub name: String,
    pub result_types: Vec<Type>,
    /// Attributes in the text form, by name.
    pub attributes: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    pub low: SmallVec<[i64; 4]>,
    pub high: SmallVec<[i64; 4]>,
    pub interior: SmallVec<[i64; 4]>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    pub update_window_dims: Dims,
    pub inserted_window_dims: Dims,
    pub input_batching_dims: Dims,
    pub scatter_indices_batching_dims: Dims,
    pub scatter_dims_to_operand_dims: Dims,
    pub index_vector_dim: usize,
    pub indices_are_sorted: bool,
    pub unique_indices: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SelectAndScatter {
    pub window: Shape,
    pub strides: Shape,
    pub padding: SmallVec<[(i64, i64); 4]>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    pub start: Shape,
    pub limit: Shape,
    pub strides: Shape,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    pub channel: i64,
    /// StableHLO's channel type: 1 device to device, 2 device to host, 3 host to device.
    pub channel_type: i64,
    pub is_host_transfer: bool,
    pub result_types: Vec<Type>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TriangularSolve {
    pub left_side: bool,
    pub lower: bool,
    pub unit_diagonal: bool,
    pub transpose_a: TransposeA,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub sizes: Shape,
    pub strides: Shape,
    pub base_dilation: Shape,
    pub window_dilation: Shape,
    pub padding: SmallVec<[(i64, i64); 4]>,
}

impl Op {
    /// Whether every element of a result is made of the elements in the same place of the operands.
    pub fn is_elementwise(&self) -> bool {
        matches!(
            self,
            Op::Binary(_) | Op::Clamp | Op::Convert { .. } | Op::OptimizationBarrier | Op::Select | Op::Unary(_)
        )
    }

    /// Whether processes meet in it.
    pub fn is_collective(&self) -> bool {
        matches!(
            self,
            Op::AllGather(_)
                | Op::AllReduce(_)
                | Op::AllToAll(_)
                | Op::CollectiveBroadcast(_)
                | Op::CollectivePermute(_)
                | Op::ReduceScatter(_)
        )
    }

    /// The name in the text form. An attention and its gradient print expanded or as a custom call,
    /// so their names here are ours alone.
    pub fn name(&self) -> &str {
        match self {
            Op::AfterAll => "stablehlo.after_all",
            Op::AllGather(_) => "stablehlo.all_gather",
            Op::AllReduce(_) => "stablehlo.all_reduce",
            Op::AllToAll(_) => "stablehlo.all_to_all",
            Op::Attention(_) => "meshwright.attention",
            Op::AttentionGrad(_) => "meshwright.attention_grad",
            Op::BatchNormGrad(_) => "stablehlo.batch_norm_grad",
            Op::BatchNormInference(_) => "stablehlo.batch_norm_inference",
            Op::BatchNormTraining(_) => "stablehlo.batch_norm_training",
            Op::Binary(binary) => binary.name(),
            Op::BitcastConvert { .. } => "stablehlo.bitcast_convert",
            Op::BroadcastInDim(_) => "stablehlo.broadcast_in_dim",
            Op::Case => "stablehlo.case",
            Op::Check(Check::AlmostEqual { .. }) => "check.expect_almost_eq",
            Op::Check(Check::Close { .. }) => "check.expect_close",
            Op::Check(Check::Equal) => "check.expect_eq",
            Op::Cholesky { .. } => "stablehlo.cholesky",
            Op::Clamp => "stablehlo.clamp",
            Op::CollectiveBroadcast(_) => "stablehlo.collective_broadcast",
            Op::CollectivePermute(_) => "stablehlo.collective_permute",
            Op::Compare { .. } => "stablehlo.compare",
            Op::Complex => "stablehlo.complex",
            Op::Concatenate { .. } => "stablehlo.concatenate",
            Op::Constant(_) => "stablehlo.constant",
            Op::Convert { .. } => "stablehlo.convert",
            Op::Convolution(_) => "stablehlo.convolution",
            Op::CustomCall(_) => "stablehlo.custom_call",
            Op::DotGeneral(_) => "stablehlo.dot_general",
            Op::DynamicSlice { .. } => "stablehlo.dynamic_slice",
            Op::DynamicUpdateSlice => "stablehlo.dynamic_update_slice",
            Op::Fft { .. } => "stablehlo.fft",
            Op::Gather(_) => "stablehlo.gather",
            Op::If => "stablehlo.if",
            Op::Infeed(_) => "stablehlo.infeed",
            Op::Iota { .. } => "stablehlo.iota",
            Op::Map => "stablehlo.map",
            Op::Opaque(opaque) => &opaque.name,
            Op::OptimizationBarrier => "stablehlo.optimization_barrier",
            Op::Outfeed(_) => "stablehlo.outfeed",
            Op::Pad(_) => "stablehlo.pad",
            Op::PartitionId => "stablehlo.partition_id",
            Op::Recv(_) => "stablehlo.recv",
            Op::Reduce { .. } => "stablehlo.reduce",
            Op::ReducePrecision { .. } => "stablehlo.reduce_precision",
            Op::ReduceScatter(_) => "stablehlo.reduce_scatter",
            Op::ReduceWindow(_) => "stablehlo.reduce_window",
            Op::ReplicaId => "stablehlo.replica_id",
            Op::Reshape { .. } => "stablehlo.reshape",
            Op::Reverse { .. } => "stablehlo.reverse",
            Op::Rng { .. } => "stablehlo.rng",
            Op::RngBitGenerator { .. } => "stablehlo.rng_bit_generator",
            Op::Scatter(_) => "stablehlo.scatter",
            Op::Select => "stablehlo.select",
            Op::SelectAndScatter(_) => "stablehlo.select_and_scatter",
            Op::Send(_) => "stablehlo.send",
            Op::Slice(_) => "stablehlo.slice",
            Op::Sort { .. } => "stablehlo.sort",
            Op::TopK { .. } => "chlo.top_k",
            Op::Transpose { .. } => "stablehlo.transpose",
            Op::TriangularSolve(_) => "stablehlo.triangular_solve",
            Op::Unary(unary) => unary.name(),
            Op::While => "stablehlo.while",
        }
    }

    /// Whether the op does something beyond computing its results, so that it must stay even when
    /// nobody reads them.
    pub fn has_side_effect(&self) -> bool {
        match self {
            Op::Check(_) | Op::Infeed(_) | Op::Outfeed(_) | Op::Recv(_) | Op::Send(_) => true,
            // What we do not know, we keep.
            Op::Opaque(_) => true,
            Op::CustomCall(call) => call.has_side_effect,
            _ => false,
        }
    }
}
