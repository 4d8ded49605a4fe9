//! Values in the memory of the host: arguments that lie there, and the copies between there and the device.
//!
//! A copy is XLA's custom call `annotate_device_placement`. An argument that nothing but copies to the device reads lies
//! on the host, and so does what a copy to the host makes; nothing else says so, so that nothing can disagree.

use rustc_hash::FxHashMap;

use super::{CustomCall, Id, Op, OpId, Program, Type, ValueId};

/// Whose memory a value is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    Device,
    Host,
}

/// The name of the custom call, and of the attribute that says where to.
const TARGET: &str = "annotate_device_placement";
const ATTRIBUTE: &str = "mhlo.frontend_attributes";

impl MemoryKind {
    /// As XLA writes it.
    fn attribute(self) -> &'static str {
        match self {
            MemoryKind::Device => "{_xla_buffer_placement = \"device\"}",
            MemoryKind::Host => "{_xla_buffer_placement = \"pinned_host\"}",
        }
    }
}

impl Op {
    /// The op that copies a value into another memory.
    pub fn copy_to(memory: MemoryKind, ty: &Type) -> Op {
        Op::CustomCall(Box::new(CustomCall {
            target: TARGET.to_owned(),
            has_side_effect: true,
            result_types: vec![ty.clone()],
            attributes: vec![(ATTRIBUTE.to_owned(), memory.attribute().to_owned())],
            rule: None,
        }))
    }

    /// Where an op copies to, if that is what it does.
    pub fn copies_to(&self) -> Option<MemoryKind> {
        let Op::CustomCall(call) = self else { return None };
        if call.target != TARGET {
            return None;
        }
        let (_, told) = call.attributes.iter().find(|(name, _)| name == ATTRIBUTE)?;
        [MemoryKind::Device, MemoryKind::Host].into_iter().find(|memory| memory.attribute() == told)
    }
}

impl Program {
    /// For every value whether it lies on the host. Empty where nothing does.
    pub fn on_host(&self) -> Vec<bool> {
        let is_copy = |memory: MemoryKind| move |op: &&OpId| self.ops[**op].op.copies_to() == Some(memory);
        let body = &self.body().ops;
        let fetching: Vec<OpId> = body.iter().filter(is_copy(MemoryKind::Device)).copied().collect();
        let mut on_host = Vec::new();
        if !fetching.is_empty() {
            on_host.resize(self.values.len(), false);
            let mut reads = vec![0_u32; self.values.len()];
            for &op in body {
                self.outer_reads(op).iter().for_each(|value| reads[value.index()] += 1);
            }
            for op in fetching {
                let value = self.ops[op].operands[0];
                on_host[value.index()] = self.producer(value).is_none() && reads[value.index()] == 1;
            }
        }
        for &op in body.iter().filter(is_copy(MemoryKind::Host)) {
            on_host.resize(self.values.len(), false);
            self.ops[op].results.iter().for_each(|value| on_host[value.index()] = true);
        }
        on_host
    }

    /// The same program with some arguments on the host, each with the result that is its next value. They are copied to
    /// the device before the first op that reads them, and their next values back when they are made.
    /// Gives the op that each op was, too; copies were none.
    pub(crate) fn held_on_host(&self, held: &[(usize, usize)]) -> (Program, Vec<Option<OpId>>) {
        let mut program = self.clone();
        let mut before: FxHashMap<OpId, Vec<OpId>> = FxHashMap::default();
        let mut after: FxHashMap<OpId, Vec<OpId>> = FxHashMap::default();
        let mut becomes: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        let body = self.body();
        let mut first: FxHashMap<ValueId, OpId> = FxHashMap::default();
        for &op in &body.ops {
            self.outer_reads(op).into_iter().for_each(|value| _ = first.entry(value).or_insert(op));
        }
        for &(argument, result) in held {
            let (value, next) = (body.arguments[argument], body.results[result]);
            // What nobody reads, or is given back as it came, stays where it is.
            let (Some(&reader), Some(maker)) = (first.get(&value), self.producer(next)) else { continue };
            let (fetch, fetched) = program.add_copy(MemoryKind::Device, value, reader);
            before.entry(reader).or_default().push(fetch);
            becomes.insert(value, fetched);
            let (store, stored) = program.add_copy(MemoryKind::Host, next, maker);
            after.entry(maker).or_default().push(store);
            program.regions[program.body].results[result] = stored;
        }
        let order = |op: &OpId| {
            let fetches = before.get(op).into_iter().flatten();
            fetches.chain([op]).chain(after.get(op).into_iter().flatten()).copied().collect::<Vec<_>>()
        };
        program.regions[program.body].ops = body.ops.iter().flat_map(order).collect();
        let now = |value: &mut ValueId| *value = becomes.get(value).copied().unwrap_or(*value);
        for op in self.ops.ids() {
            program.ops[op].operands.iter_mut().for_each(now);
        }
        for region in self.regions.ids().filter(|&region| region != self.body) {
            program.regions[region].results.iter_mut().for_each(now);
        }
        let (program, mut origins) = program.compact_with_origins();
        origins.iter_mut().for_each(|origin| *origin = origin.filter(|op| op.index() < self.ops.len()));
        (program, origins)
    }

    /// A copy that stands nowhere yet, told by the place of another op.
    fn add_copy(&mut self, memory: MemoryKind, value: ValueId, beside: OpId) -> (OpId, ValueId) {
        let (ty, location) = (self.ty(value).clone(), self.ops[beside].location);
        let op = self.add_op_with_types(self.body, Op::copy_to(memory, &ty), &[value], &[], [ty], location);
        (op, self.ops[op].results[0])
    }
}
