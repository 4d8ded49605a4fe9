//! Alpa's tests as rows: a program on a mesh, what a plan for it costs, and which collectives it has. Facts are from
//! `tests/shard_parallel` of alpa-projects/alpa.

use meshwright::program::Program;

use crate::price::Prices;
use crate::programs::{
    BERT_LAYERS, MLP_LAYERS, Mixture, Transformer, attention_forward, bert_layers, convolutions, depthwise_convolution,
    masked_model, mixture_layer, mlp, preset, tied_embedding,
};

/// What is expected of planning a program for a mesh.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The row of the table of acceptance, and what it is about.
    pub(crate) name: &'static str,
    pub(crate) program: fn() -> Program,
    pub(crate) mesh: &'static str,
    pub(crate) prices: Prices,
    /// The plan as tactics, each an inline table.
    pub(crate) tactics: Vec<String>,
    /// Those of them that a planner is told; the others are for it to find.
    pub(crate) told: Vec<String>,
    /// What all movements cost together.
    pub(crate) objective: Option<fn(&Prices) -> f64>,
    pub(crate) counts: Counts,
}

/// How many collectives there are; of permutations there are none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) all_gather: Count,
    pub(crate) all_reduce: Count,
    pub(crate) all_to_all: Count,
    pub(crate) reduce_scatter: Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Exactly(usize),
    AtMost(usize),
    AtLeast(usize),
}

impl Count {
    pub(crate) fn holds(self, found: usize) -> bool {
        match self {
            Count::Exactly(count) => found == count,
            Count::AtMost(count) => found <= count,
            Count::AtLeast(count) => found >= count,
        }
    }
}

use Count::{AtLeast, AtMost, Exactly};

const NONE: Counts = reduces(0);

const fn reduces(count: usize) -> Counts {
    Counts { all_gather: Exactly(0), all_reduce: Exactly(count), all_to_all: Exactly(0), reduce_scatter: Exactly(0) }
}

const ONE_ALL_REDUCE: Counts = reduces(1);

/// Gradients scattered and parameters gathered once each, or twice at most: Alpa does twice what lies along two
/// dimensions, once for each. Gradients that are not scattered would be reduced, which is counted.
const fn scatters(most: usize, reduced: usize) -> Counts {
    Counts { all_gather: AtMost(most), reduce_scatter: AtMost(most), ..reduces(reduced) }
}

/// Both dimensions cost the same.
const EVEN: Prices = Prices { alpha: [1.0, 1.0], beta: [1.0, 1.0] };
/// The second is ten times as fast.
const UNEVEN: Prices = Prices { alpha: [1.0, 1.0], beta: [1.0, 0.1] };
const SLOW_START: Prices = Prices { alpha: [2.0, 2.0], beta: [1.0, 0.1] };

const DATA: &str = "{ axis = 'x', preset = 'data' }";
const DATA_ON_SECOND: &str = "{ axis = 'y', preset = 'data' }";
const MEGATRON: &str = "{ axis = 'x', preset = 'megatron' }";
const MEGATRON_ON_SECOND: &str = "{ axis = 'y', preset = 'megatron' }";
const VOCAB_ON_SECOND: &str = "{ axis = 'y', preset = 'vocab' }";
const EXPERT: &str = "{ axis = 'x', preset = 'expert' }";
const EXPERT_ON_SECOND: &str = "{ axis = 'y', preset = 'expert' }";
const MICROBATCHES: &str = "{ axis = 'micro', preset = 'data' }";
const AGAIN: &str = "{ remat = ['layers.*'] }";
/// Moments are cut, vectors too; parameters are not.
const STATE: &str = "{ axis = 'x', replicate = ['params.**'], tile = { 'opt.m.**' = 'first', 'opt.v.**' = 'first' } }";
const PARAMETERS: &str = "{ axis = 'x', tile = { 'params.**' = 'first' } }";

/// Dense layers by columns and by rows in turn.
const ALTERNATING: &str = "{ axis = 'x', tile = { \
     'params.layers.0.weight' = 1, 'params.layers.1.weight' = 0, 'params.layers.2.weight' = 1, \
     'params.layers.3.weight' = 0, 'params.layers.4.weight' = 1, 'params.layers.5.weight' = 0 } }";

/// Channels alone, then sums over them.
const CHANNELS: &str = "{ axis = 'x', tile = { 'params.depth.weight' = 3, 'params.point.weight' = 2 } }";

fn wide_mlp() -> Program {
    mlp(256, 32)
}

fn deep_mlp() -> Program {
    mlp(32, 256)
}

const LONG_BERT: Transformer = Transformer { batch: 64, seq: 64, hidden: 32, heads: 8 };
const WIDE_BERT: Transformer = Transformer { batch: 8, seq: 8, hidden: 128, heads: 8 };

fn wide_bert() -> Program {
    bert_layers(WIDE_BERT)
}

/// Bytes of the hidden states of a transformer.
const fn states(sizes: Transformer) -> usize {
    sizes.batch * sizes.seq * sizes.hidden * 4
}

fn mixture() -> Program {
    let sizes = Transformer { batch: 64, seq: 16, hidden: 64, heads: 16 };
    mixture_layer(sizes, Mixture { group: 32, experts: 16 })
}

fn mixture_model() -> Program {
    let settings = [
        ("layers", 2),
        ("batch", 64),
        ("seq", 16),
        ("hidden", 64),
        ("heads", 16),
        ("ffn", 256),
        ("experts", 16),
        ("expert_group", 32),
        ("vocab", 256),
    ];
    let mut model = preset("moe-380m", &settings);
    model.set("optimizer", "adafactor").expect("an optimizer");
    model.build().expect("a program")
}

const MASKED: Transformer = Transformer { batch: 4, seq: 4, hidden: 512, heads: 8 };

fn row(
    name: &'static str,
    program: fn() -> Program,
    (mesh, prices): (&'static str, Prices),
    tactics: &[&str],
    objective: Option<fn(&Prices) -> f64>,
    counts: Counts,
) -> Row {
    let tactics = tactics.iter().map(|&tactic| tactic.to_owned()).collect();
    Row { name, program, mesh, prices, tactics, told: Vec::new(), objective, counts }
}

impl Row {
    fn told(mut self, tactics: &[&str]) -> Row {
        self.told.extend(tactics.iter().map(|&tactic| tactic.to_owned()));
        self
    }
}

/// A row for four devices along the first dimension, and the same for the second.
fn both(row: Row) -> [Row; 2] {
    let turned = row.tactics.iter().map(|tactic| tactic.replace("axis = 'x'", "axis = 'y'")).collect();
    let second = Row { mesh: SECOND.0, tactics: turned, ..row.clone() };
    [row, second]
}

const FIRST: (&str, Prices) = ("x=4,y=1", EVEN);
const SECOND: (&str, Prices) = ("x=1,y=4", EVEN);
const SQUARE: (&str, Prices) = ("x=2,y=2", UNEVEN);

/// All rows, in the order of the table.
pub(crate) fn rows() -> Vec<Row> {
    [dense_rows(), transformer_rows(), other_rows()].concat()
}

#[rustfmt::skip] // One row a case.
fn dense_rows() -> Vec<Row> {
    let model_parallel: fn(&Prices) -> f64 = |prices| (MLP_LAYERS - 1) as f64 * prices.all_reduce(32 * 256 * 4, 4, 0);
    let mixed: fn(&Prices) -> f64 = |prices| {
        let gradients = prices.all_reduce(32 * 32 * 4 / 2, 2, 0) + prices.all_reduce(32 * 4, 2, 0);
        MLP_LAYERS as f64 * gradients + (MLP_LAYERS - 1) as f64 * prices.all_reduce(256 * 32 * 4 / 2, 2, 1)
    };
    let mut rows = Vec::new();
    rows.extend(both(row("1: data parallel", wide_mlp, FIRST, &[DATA], None, ONE_ALL_REDUCE)));
    rows.extend(both(row("2: model parallel", deep_mlp, FIRST, &[ALTERNATING], Some(model_parallel), reduces(5))));
    rows.push(row("3: both", wide_mlp, SQUARE, &[DATA, MEGATRON_ON_SECOND], Some(mixed), reduces(6)));
    rows.push(row("4: data parallel by force", deep_mlp, FIRST, &[DATA], None, ONE_ALL_REDUCE).told(&[DATA]));
    rows.push(row("4: data parallel by force", deep_mlp, SQUARE, &[DATA, DATA_ON_SECOND], None, ONE_ALL_REDUCE).told(&[DATA, DATA_ON_SECOND]));
    rows.push(row("5: batch on the first dimension", deep_mlp, FIRST, &[DATA], None, ONE_ALL_REDUCE).told(&[DATA]));
    rows.push(row("5: batch on the first dimension", deep_mlp, SECOND, &[DATA, MEGATRON_ON_SECOND], Some(model_parallel), reduces(5)).told(&[DATA]));
    rows.push(row("6: ZeRO-2", wide_mlp, FIRST, &[DATA, STATE], None, scatters(1, 0)).told(&[STATE]));
    rows.push(row("6: ZeRO-2 and both", wide_mlp, SQUARE, &[DATA, MEGATRON_ON_SECOND, STATE], None, scatters(2, 5)).told(&[STATE]));
    rows.push(row("7: ZeRO-3", wide_mlp, FIRST, &[DATA, PARAMETERS], None, Counts { all_gather: AtMost(2), ..scatters(1, 0) }).told(&[PARAMETERS]));
    rows
}

#[rustfmt::skip] // One row a case.
fn transformer_rows() -> Vec<Row> {
    let model_parallel: fn(&Prices) -> f64 = |prices| (4 * BERT_LAYERS - 1) as f64 * prices.all_reduce(states(WIDE_BERT), 4, 0);
    let tied: fn(&Prices) -> f64 = |prices| {
        let [table, states, numbers] = [1024 * 8 * 4 / 2, 8 * 8 * 8 * 4 / 2, 8 * 8 * 4 / 2];
        prices.all_reduce(table, 2, 0) + 2.0 * (prices.all_reduce(states, 2, 1) + prices.all_reduce(numbers, 2, 1))
    };
    let square = ("x=2,y=2", SLOW_START);
    let mut rows = Vec::new();
    rows.extend(both(row("8: data parallel", || bert_layers(LONG_BERT), FIRST, &[DATA], None, ONE_ALL_REDUCE)));
    rows.extend(both(row("9: model parallel", wide_bert, FIRST, &[MEGATRON], Some(model_parallel), reduces(7))));
    rows.push(row("10: both", wide_bert, square, &[DATA, MEGATRON_ON_SECOND], None, reduces(8)));
    rows.push(row("10: both and ZeRO-2", wide_bert, square, &[DATA, MEGATRON_ON_SECOND, STATE], None, scatters(2, 7)).told(&[STATE]));
    rows.push(row("11: every layer again", wide_bert, FIRST, &[MEGATRON, AGAIN], None, reduces(11)).told(&[AGAIN]));
    rows.push(row("12: a tied embedding", || tied_embedding(8, 8, 8, 1024), ("x=2,y=2", EVEN), &[DATA, VOCAB_ON_SECOND], Some(tied), Counts { all_reduce: AtLeast(1), ..NONE }));
    rows.push(row("13: masked tokens", || masked_model(MASKED, 4096), SQUARE, &[DATA, MEGATRON_ON_SECOND, VOCAB_ON_SECOND], None, reduces(13)));
    rows
}

#[rustfmt::skip] // One row a case.
fn other_rows() -> Vec<Row> {
    const FORWARD: Transformer = Transformer { batch: 8, seq: 8, hidden: 128, heads: 8 };
    let forward: fn(&Prices) -> f64 = |prices| prices.all_reduce(states(FORWARD), 4, 0);
    let forward_of_part: fn(&Prices) -> f64 = |prices| prices.all_reduce(states(FORWARD) / 4, 4, 1);
    let exchanges = Counts { all_to_all: Exactly(4), ..reduces(1) };
    let mut rows = Vec::new();
    rows.push(row("14: norms over the batch", || convolutions(16, 16, 4, 3), FIRST, &[DATA], None, reduces(1 + 2 * 3)));
    rows.push(row("15: convolutions by channels", || convolutions(8, 16, 256, 4), FIRST, &[MEGATRON], None, reduces(3)));
    rows.push(row("16: channels alone", || depthwise_convolution(4, 16, 256), FIRST, &[CHANNELS], None, reduces(1)));
    rows.extend(both(row("17: experts", mixture, FIRST, &[EXPERT, DATA], None, exchanges)));
    rows.push(row("18: experts on a square", mixture, SQUARE, &[DATA, EXPERT_ON_SECOND, DATA_ON_SECOND], None, Counts { all_to_all: AtLeast(1), ..reduces(2) }));
    rows.push(row("19: a model with experts", mixture_model, FIRST, &[EXPERT, DATA], None, Counts { all_reduce: AtMost(4), ..exchanges }));
    rows.push(row("19: data parallel by force", mixture_model, FIRST, &[DATA], None, ONE_ALL_REDUCE).told(&[DATA]));
    rows.push(row("20: microbatches", wide_mlp, ("x=4,y=1,micro=2@time", EVEN), &[DATA, MICROBATCHES], None, ONE_ALL_REDUCE).told(&[MICROBATCHES]));
    rows.push(row("20: microbatches and ZeRO", wide_mlp, ("x=4,y=1,micro=2@time", EVEN), &[DATA, STATE, MICROBATCHES], None, scatters(1, 0)).told(&[STATE, MICROBATCHES]));
    rows.push(row("21: attention forward", || attention_forward(FORWARD), FIRST, &[MEGATRON], Some(forward), reduces(1)));
    rows.push(row("21: attention forward", || attention_forward(FORWARD), ("x=4,y=4", EVEN), &[DATA, MEGATRON_ON_SECOND], Some(forward_of_part), reduces(1)));
    rows
}
