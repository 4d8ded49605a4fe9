//! Programs that are made up.

use super::{SmallProgram, Writer};

/// A program of four to twelve ops on matrices. The same seed gives the same program.
pub(super) fn generate(seed: u64, unit: usize) -> SmallProgram {
    let mut random = Random(seed);
    let mut writer = Writer::default();
    let mut values = vec![writer.argument(&[unit * random.pick(&[2, 4, 6]), unit * random.pick(&[2, 4, 8])])];
    let ops = 4 + random.below(9);
    while writer.ops < ops {
        let added = step(&mut random, &mut writer, &values, unit, ops);
        values.extend(added);
    }
    writer.finish(&format!("seed {seed}"))
}

/// Adds an op, or two that belong together; what was made last is read most.
fn step(random: &mut Random, writer: &mut Writer, values: &[usize], unit: usize, ops: usize) -> Option<usize> {
    let recent = &values[values.len().saturating_sub(3)..];
    let most_back = random.below(recent.len());
    let value = recent[recent.len() - 1 - random.below(most_back + 1)];
    let shape = writer.shapes[value].clone();
    let with_shape = |writer: &Writer, wanted: &[usize]| {
        let found = values.iter().rev().find(|&&other| other != value && writer.shapes[other] == wanted);
        found.copied()
    };
    let [rows, columns] = shape[..] else { return None };
    Some(match random.below(12) {
        0..=3 => {
            let weight = writer.argument(&[columns, unit * random.pick(&[2, 4, 6, 8])]);
            writer.product(value, weight, [1, 0])
        }
        4 => {
            let other = *values.iter().find(|&&other| other != value && writer.shapes[other][0] == rows)?;
            writer.product(value, other, [0, 0])
        }
        5 => {
            let other = *values.iter().rev().find(|&&other| other != value && writer.shapes[other][1] == columns)?;
            writer.product(value, other, [1, 1])
        }
        6 => writer.alike("tanh", &[value]),
        7 | 8 => {
            let other = with_shape(writer, &shape)?;
            let name = random.pick(&["add", "multiply"]);
            writer.alike(name, &[value, other])
        }
        9 => writer.transpose(value),
        10 if writer.ops + 3 <= ops => {
            let dim = random.below(2);
            let name = random.pick(&["add", "maximum"]);
            let sums = writer.reduce(value, name, dim);
            let sums = writer.broadcast(sums, &shape, &[1 - dim]);
            writer.alike("subtract", &[value, sums])
        }
        11 if writer.ops + 3 <= ops => {
            let split = writer.reshape(value, &[2, rows / 2, columns]);
            let turned = writer.transpose(split);
            writer.reshape(turned, &[columns * (rows / 2), 2])
        }
        _ => return None,
    })
}

/// Numbers that look random and are the same every time.
struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ bits >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
