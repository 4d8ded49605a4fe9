//! Whether the instructions of all stages run to their end and make what they should.

use std::collections::{BTreeMap, VecDeque};

use super::{Instruction, Pipeline, Role};

/// Runs all lists against each other without computing anything. The error says which stage cannot go on, or
/// what is used that is not there.
pub fn check(pipeline: &Pipeline) -> Result<(), String> {
    check_types(pipeline)?;
    let mut checker = Checker::new(pipeline);
    checker.fill_arguments();
    let mut next = vec![0; pipeline.stages.len()];
    loop {
        let mut is_stuck = true;
        for (stage, list) in pipeline.stages.iter().enumerate() {
            while let Some(&instruction) = list.get(next[stage]) {
                let place = next[stage];
                let is_done = checker.step(stage, instruction);
                if !is_done.map_err(|message| format!("stage {stage}, instruction {place}: {message}"))? {
                    break;
                }
                next[stage] += 1;
                is_stuck = false;
            }
        }
        if is_stuck {
            break;
        }
    }
    for (stage, (&next, list)) in next.iter().zip(&pipeline.stages).enumerate() {
        if next < list.len() {
            return Err(format!("stage {stage} waits forever at instruction {next}: {:?}", list[next]));
        }
    }
    checker.end()
}

/// A buffer, for the microbatch where there is one for each.
type Slot = (usize, Option<usize>);

struct Checker<'p> {
    pipeline: &'p Pipeline,
    /// Of every buffer, where its slots begin.
    first: Vec<usize>,
    /// Of every slot, whether it is in memory, and whether it was ever written. A buffer is on one stage.
    there: Vec<bool>,
    made: Vec<bool>,
    /// What is on its way from a stage to another.
    channels: BTreeMap<(usize, usize), VecDeque<Slot>>,
}

impl<'p> Checker<'p> {
    fn new(pipeline: &'p Pipeline) -> Checker<'p> {
        let mut first = Vec::with_capacity(pipeline.buffers.len());
        let mut count = 0;
        for buffer in &pipeline.buffers {
            first.push(count);
            count += if buffer.each_microbatch { pipeline.microbatches.max(1) } else { 1 };
        }
        let (there, made) = (vec![false; count], vec![false; count]);
        Checker { pipeline, first, there, made, channels: BTreeMap::new() }
    }

    /// The place of a slot, if there is such a one on a stage.
    fn place(&self, stage: usize, (buffer, microbatch): Slot) -> Option<usize> {
        let info = &self.pipeline.buffers[buffer];
        let number = match microbatch {
            Some(number) if info.each_microbatch && number < self.pipeline.microbatches => number,
            None if !info.each_microbatch => 0,
            _ => return None,
        };
        (info.stage == stage).then(|| self.first[buffer] + number)
    }

    fn fill_arguments(&mut self) {
        for (index, buffer) in self.pipeline.buffers.iter().enumerate() {
            if let Role::Argument(_) | Role::Number = buffer.role {
                for slot in self.slots(index) {
                    if let Some(place) = self.place(buffer.stage, slot) {
                        self.there[place] = true;
                    }
                }
            }
        }
    }

    fn slots(&self, buffer: usize) -> Vec<Slot> {
        match self.pipeline.buffers[buffer].each_microbatch {
            true => (0..self.pipeline.microbatches).map(|microbatch| (buffer, Some(microbatch))).collect(),
            false => vec![(buffer, None)],
        }
    }

    fn slot(&self, buffer: usize, microbatch: Option<usize>) -> Slot {
        (buffer, microbatch.filter(|_| self.pipeline.buffers[buffer].each_microbatch))
    }

    /// Does one thing, or gives false where it has to wait.
    fn step(&mut self, stage: usize, instruction: Instruction) -> Result<bool, String> {
        match instruction {
            Instruction::Run { piece, microbatch } => {
                let piece = &self.pipeline.pieces[piece];
                for &buffer in &piece.reads {
                    self.read(stage, self.slot(buffer, microbatch))?;
                }
                for &buffer in &piece.writes {
                    self.write(stage, self.slot(buffer, microbatch))?;
                }
            }
            Instruction::Send { buffer, microbatch, to, into } => {
                self.read(stage, (buffer, microbatch))?;
                self.channels.entry((stage, to)).or_default().push_back((into, microbatch));
            }
            Instruction::Receive { buffer, microbatch, from } => {
                let Some(sent) = self.channels.get_mut(&(from, stage)).and_then(VecDeque::pop_front) else {
                    return Ok(false);
                };
                if sent != (buffer, microbatch) {
                    return Err(format!(
                        "{sent:?} comes from stage {from} where {:?} is awaited",
                        (buffer, microbatch)
                    ));
                }
                self.write(stage, sent)?;
            }
            Instruction::Accumulate { from, into, microbatch } => {
                self.read(stage, (from, microbatch))?;
                if let Some(place) = self.place(stage, (into, None)) {
                    (self.made[place], self.there[place]) = (true, true);
                }
            }
            Instruction::Free { buffer, microbatch } => {
                self.read(stage, (buffer, microbatch))?;
                if let Some(place) = self.place(stage, (buffer, microbatch)) {
                    self.there[place] = false;
                }
            }
        }
        Ok(true)
    }

    fn read(&self, stage: usize, slot: Slot) -> Result<(), String> {
        let name = &self.pipeline.buffers[slot.0].name;
        let place = self.place(stage, slot);
        if place.is_some_and(|place| self.there[place]) {
            return Ok(());
        }
        let why = if place.is_some_and(|place| self.made[place]) {
            "is used after it was freed"
        } else {
            "is used but not made"
        };
        Err(format!("`{name}` {slot:?} {why}"))
    }

    fn write(&mut self, stage: usize, slot: Slot) -> Result<(), String> {
        match self.place(stage, slot) {
            Some(place) if !self.made[place] => {
                (self.made[place], self.there[place]) = (true, true);
                Ok(())
            }
            _ => {
                let buffer = &self.pipeline.buffers[slot.0];
                let (name, stage) = (&buffer.name, buffer.stage);
                Err(format!("`{name}` {slot:?} of stage {stage} is written again or elsewhere"))
            }
        }
    }

    /// All that was sent was received, and all results are there.
    fn end(&self) -> Result<(), String> {
        for ((from, to), waiting) in &self.channels {
            if let Some((buffer, _)) = waiting.front() {
                let name = &self.pipeline.buffers[*buffer].name;
                return Err(format!("`{name}` is sent from stage {from} to stage {to} and never received"));
            }
        }
        for (index, copies) in self.pipeline.results.iter().enumerate() {
            let is_there = |slot: &Slot| {
                let place = self.place(self.pipeline.buffers[slot.0].stage, *slot);
                place.is_some_and(|place| self.there[place])
            };
            if copies.is_empty()
                || !copies.iter().flat_map(|stored| self.slots(stored.buffer)).all(|slot| is_there(&slot))
            {
                return Err(format!("result {index} is not made"));
            }
        }
        Ok(())
    }
}

/// Programs fit the buffers that they read and write, and buffers those they are sent to or added to.
fn check_types(pipeline: &Pipeline) -> Result<(), String> {
    let ty = |buffer: usize| &pipeline.buffers[buffer].ty;
    for (index, piece) in pipeline.pieces.iter().enumerate() {
        let body = piece.program.body();
        let sides = [(&body.arguments, &piece.reads), (&body.results, &piece.writes)];
        for (values, buffers) in sides {
            let fits = values.iter().zip(buffers).all(|(&value, &buffer)| piece.program.ty(value) == ty(buffer));
            if !fits || values.len() != buffers.len() {
                return Err(format!("the program of piece {index} does not fit its buffers"));
            }
        }
    }
    for instruction in pipeline.stages.iter().flatten() {
        let pair = match *instruction {
            Instruction::Send { buffer, into, .. } => Some((buffer, into)),
            Instruction::Accumulate { from, into, .. } => Some((from, into)),
            Instruction::Run { .. } | Instruction::Receive { .. } | Instruction::Free { .. } => None,
        };
        if let Some((from, into)) = pair.filter(|&(from, into)| ty(from) != ty(into)) {
            return Err(format!("buffer {from} is `{}` and buffer {into} is `{}`", ty(from), ty(into)));
        }
    }
    Ok(())
}
