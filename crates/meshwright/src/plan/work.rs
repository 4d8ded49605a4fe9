//! What ops compute, as the simulator counts it.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::choices::Cut;
use super::parts::Parts;
use crate::cluster::Device;
use crate::program::{Argument, Attention, AttentionGrad, Id, Op, OpId, Program, ResultInfo, Type, ValueId};
use crate::simulate::{End, Engine, Kernel, Task, Touch, chain_seconds, kernel_seconds, kernels, traffic};

/// Who computes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worker<'a> {
    pub(super) device: &'a Device,
    pub(super) engine: &'a Engine,
}

/// What the ops of a program read and write as parts of chains, the whole program seen at once: what a chain makes
/// for itself alone never goes to memory.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// In the order of their ops.
    touches: Vec<Touch>,
    /// Where those of each op begin.
    starts: Vec<u32>,
    /// For every op the kernel that it begins.
    begins: Vec<Begins>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begins {
    Nothing,
    Chain,
    /// It is a kernel by itself.
    Alone,
}

impl Work {
    pub(super) fn new(program: &Program) -> Work {
        let (kernels, mut touches) = traffic(program);
        touches.sort_unstable();
        let mut starts = vec![0; program.ops.len() + 1];
        touches.iter().for_each(|touch| starts[touch.op.index() + 1] += 1);
        for op in 0..program.ops.len() {
            starts[op + 1] += starts[op];
        }
        let mut begins = vec![Begins::Nothing; program.ops.len()];
        for kernel in &kernels {
            let is_chain = matches!(kernel.task, Task::Chain);
            begins[kernel.op.index()] = if is_chain { Begins::Chain } else { Begins::Alone };
        }
        Work { touches, starts, begins }
    }

    fn touches(&self, op: OpId) -> &[Touch] {
        &self.touches[self.starts[op.index()] as usize..self.starts[op.index() + 1] as usize]
    }

    /// What an op takes that is cut so, in all trips.
    pub(super) fn seconds(&self, worker: Worker<'_>, parts: &Parts<'_>, op: OpId, cut: &Cut) -> f64 {
        let launches = match self.begins[op.index()] {
            Begins::Alone => return alone_seconds(worker, parts, op, cut),
            Begins::Chain => parts.time.trips(op),
            Begins::Nothing => 0,
        };
        let bytes: f64 = self.touches(op).iter().map(|touch| touched_bytes(parts, cut, touch)).sum();
        let launch_seconds = worker.device.launch_seconds;
        let moving = chain_seconds(worker.device, bytes) - launch_seconds;
        (moving + launches as f64 * launch_seconds) / worker.engine.kernel_speed
    }
}

/// Of what an op touches, the bytes of one part in all trips.
fn touched_bytes(parts: &Parts<'_>, cut: &Cut, touch: &Touch) -> f64 {
    let operation = &parts.program.ops[touch.op];
    let reads_part = matches!(operation.op, Op::DynamicSlice { .. } | Op::Gather(_) | Op::Slice(_));
    let (value, place) = match touch.end {
        // Of what is looked up, as much is read as comes out.
        End::Operand(0) if reads_part => (operation.results[0], cut.made[0]),
        End::Operand(index) => {
            let index = index as usize;
            (operation.operands[index], cut.wanted.get(index).copied().unwrap_or_default())
        }
        End::Result(index) => (operation.results[index as usize], cut.made[index as usize]),
    };
    let times = if parts.time.is_tiled(value) { 1 } else { parts.time.trips(touch.op) };
    (touch.bytes * times) as f64 / parts.count(value, place) as f64
}

/// By a program of the part of one op that a device has.
fn alone_seconds(worker: Worker<'_>, parts: &Parts<'_>, op: OpId, cut: &Cut) -> f64 {
    let Worker { device, engine } = worker;
    let old = parts.program;
    let operation = &old.ops[op];
    let mut new = Program::new("");
    let mut values: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    let mut operands = SmallVec::<[ValueId; 4]>::new();
    for (index, &operand) in operation.operands.iter().enumerate() {
        let place = cut.wanted.get(index).copied().unwrap_or_default();
        let value =
            values.entry(operand).or_insert_with(|| new.add_argument(Argument::default(), parts.local(operand, place)));
        operands.push(*value);
    }
    let results = operation.results.iter().zip(&cut.made);
    let types: Vec<Type> = results.map(|(&result, &place)| parts.local(result, place)).collect();
    let has_all_queries = || new.shape(operands[0])[2] == old.shape(operation.operands[0])[2];
    let local = match &operation.op {
        // Which keys some of the queries see is written out, so that nothing of a causal mask is left out.
        Op::Attention(attention) if attention.causal && !has_all_queries() => {
            Op::Attention(Box::new(Attention { causal: false, ..(**attention).clone() }))
        }
        Op::AttentionGrad(grad) if grad.causal && !has_all_queries() => {
            Op::AttentionGrad(Box::new(AttentionGrad { causal: false, ..(**grad).clone() }))
        }
        other => other.clone(),
    };
    let body = new.body;
    let id = new.add_op_with_types(body, local, &operands, &[], types, Program::UNKNOWN_LOCATION);
    for value in new.ops[id].results.clone() {
        new.add_result(value, ResultInfo::default());
    }
    let seconds = |kernel: &Kernel| kernel_seconds(device, engine, kernel);
    kernels(&new).iter().map(seconds).sum::<f64>() * parts.time.trips(op) as f64
}
