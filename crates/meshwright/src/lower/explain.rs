//! Reshards in words: who wants a value otherwise, and which tactic is behind it.

use super::estimate::sent_bytes;
use super::{LocalProgram, Reason, Reshard};
use crate::program::{ArgumentClass, Id, OpId, Program, Trips, ValueId};
use crate::shard::{Kind, Layout, Piece, PieceSet, Pieces, Reduction, Sharding};

/// What a reader wants to know of a reshard.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The op that makes or reads the value, or made it where a result is stored.
    pub op: Option<OpId>,
    pub reason: String,
    /// Bytes that a device sends, in all trips of the loops around.
    pub bytes: f64,
}

/// Explains every reshard of a lowered layout. `tactics` are the names that it knows by number.
pub fn explain(layout: &Layout<'_>, local: &LocalProgram, tactics: &[&str]) -> Vec<Explanation> {
    let explainer = Explainer::new(layout, tactics);
    local.reshards.iter().map(|reshard| explainer.explanation(reshard)).collect()
}

struct Explainer<'l, 'p> {
    layout: &'l Layout<'p>,
    program: &'p Program,
    tactics: &'l [&'l str],
    /// Per result of the program, the argument whose next value it is.
    stored_like: Vec<Option<usize>>,
    trips: Trips,
}

impl<'l, 'p> Explainer<'l, 'p> {
    fn new(layout: &'l Layout<'p>, tactics: &'l [&'l str]) -> Explainer<'l, 'p> {
        let program = layout.program;
        let mut stored_like = vec![None; program.results.len()];
        for (argument, result) in layout.anatomy.next.iter().enumerate() {
            if let Some(result) = *result {
                stored_like[result] = Some(argument);
            }
        }
        Explainer { layout, program, tactics, stored_like, trips: program.trips() }
    }

    fn explanation(&self, reshard: &Reshard) -> Explanation {
        let op = match reshard.reason {
            Reason::Made { by } | Reason::Read { by } => Some(by),
            Reason::Stored { .. } => self.program.producer(reshard.value),
        };
        let times = reshard.times.saturating_mul(self.trips.of_value(self.program, reshard.value));
        Explanation { op, reason: self.reason(reshard), bytes: times as f64 * self.bytes(reshard) }
    }

    /// Bytes that a device sends in one reshard.
    fn bytes(&self, reshard: &Reshard) -> f64 {
        let (mesh, ty) = (&self.layout.mesh, self.program.ty(reshard.value));
        let mut before = reshard.from.local_type(mesh, ty).bytes();
        let mut sent = 0.0;
        for next in &reshard.moves {
            let after = next.to.local_type(mesh, ty).bytes();
            if let Some(kind) = next.step.collective() {
                sent += sent_bytes(kind, mesh.product(next.step.pieces()), before, after);
            }
            before = after;
        }
        sent
    }

    fn reason(&self, reshard: &Reshard) -> String {
        let from = &reshard.from;
        let Some(to) = reshard.moves.last().map(|last| &last.to) else { return String::new() };
        let finished = without(&from.partial, PieceSet::of(&to.partial));
        let all: Pieces = from.dims.iter().flatten().copied().collect();
        let gathered = without(&all, to.used());
        if !finished.is_empty() {
            self.finished(reshard, &finished)
        } else if !gathered.is_empty() {
            self.gathered(reshard, &gathered)
        } else if let Some(moved) = moved(from, to) {
            self.moved(reshard, &moved)
        } else {
            self.sliced(reshard, to)
        }
    }

    /// Parts become the whole sum.
    fn finished(&self, reshard: &Reshard, pieces: &[Piece]) -> String {
        let (sums, sum) = reduction_words(reshard.from.reduction);
        let over = self.summed_axes(reshard.value, pieces);
        match reshard.reason {
            Reason::Made { by } if self.layout.reduced_pieces(by).contains(pieces[0]) => {
                format!("{} {sums} over {over}", self.name(by))
            }
            Reason::Made { by } => format!("{} joins parts of a {sum} over {over}", self.name(by)),
            Reason::Read { by } => format!("{} needs the finished {sum} over {over}", self.name(by)),
            Reason::Stored { result } => format!("{} is the finished {sum} over {over}", self.result(result)),
        }
    }

    /// The axes over which a value is partial, each with what it cuts.
    fn summed_axes(&self, value: ValueId, pieces: &[Piece]) -> String {
        let mesh = &self.layout.mesh;
        let axes: Vec<String> = pieces
            .chunk_by(|&left, &right| mesh.axis_of(left) == mesh.axis_of(right))
            .map(|pieces| format!("{}{}", self.axes(pieces), self.partial_cause(value, pieces[0])))
            .collect();
        axes.join(", and ")
    }

    /// Devices get parts that others have.
    fn gathered(&self, reshard: &Reshard, pieces: &[Piece]) -> String {
        let source = self.layout.anatomy.origins[reshard.value.index()];
        let made = if source.is_some() { "stored" } else { "made" };
        let cut = format!("{made} cut by {}{}", self.axes(pieces), self.tactic(reshard.value, pieces[0]));
        match reshard.reason {
            Reason::Made { by } | Reason::Read { by } => {
                let used = self.layout.strategy(by).used();
                let taken: Pieces = pieces.iter().copied().filter(|&piece| used.contains(piece)).collect();
                let why = if self.layout.is_blocked(by, PieceSet::of(pieces)) {
                    ", which is kept whole".to_owned()
                } else if source.is_none() && !taken.is_empty() {
                    format!(", which {} cuts along another dimension", self.axes(&taken))
                } else {
                    String::new()
                };
                format!("{cut}, used whole in {}{why}", self.name(by))
            }
            Reason::Stored { result } => match self.stored_like[result] {
                Some(argument) => format!("{cut}, but stored like argument {}", self.argument(argument)),
                None => format!("{cut}, but {} does not divide", self.result(result)),
            },
        }
    }

    /// Another dimension is cut, or the same in another order.
    fn moved(&self, reshard: &Reshard, moved: &Moved) -> String {
        let cut = match moved {
            Moved { from, to, .. } if from == to => {
                format!("cut by {} in another order than", self.axes(&moved.pieces))
            }
            Moved { from, to, pieces } => {
                format!("cut by {} along dimension {from}, but along dimension {to}", self.axes(pieces))
            }
        };
        match reshard.reason {
            Reason::Made { by } | Reason::Read { by } => {
                format!("{cut} in {}{}", self.name(by), self.tactic(reshard.value, moved.pieces[0]))
            }
            Reason::Stored { result } => format!("{cut} in {}", self.stored(result)),
        }
    }

    /// Devices keep a part of what they have, or forget it; nothing is sent.
    fn sliced(&self, reshard: &Reshard, to: &Sharding) -> String {
        let new = without(&to.used().pieces(), reshard.from.used());
        match reshard.reason {
            Reason::Made { by } | Reason::Read { by } if to.partial.is_empty() => {
                format!("made whole, {} works on parts cut by {}", self.name(by), self.axes(&new))
            }
            Reason::Made { by } | Reason::Read { by } => {
                let (_, sum) = reduction_words(to.reduction);
                format!("{} joins it with a partial {sum} over {}", self.name(by), self.axes(&to.partial))
            }
            Reason::Stored { result } => format!("{} is cut by {}", self.stored(result), self.axes(&new)),
        }
    }

    /// What a partial value is partial for: the tensor or the batch that an axis cuts, and the tactic.
    fn partial_cause(&self, value: ValueId, piece: Piece) -> String {
        let Some((op, operand)) = self.reduced_operand(value, piece) else { return String::new() };
        let operand = self.program.ops[op].operands[operand];
        let tactic = self.tactic(operand, piece);
        // Of inputs it matters more which dimension it is.
        let stored = self.layout.anatomy.origins[operand.index()]
            .filter(|&argument| self.layout.anatomy.classes[argument] != ArgumentClass::Input);
        if let Some(argument) = stored {
            return format!(", which cuts {}{tactic}", self.argument(argument));
        }
        match self.cut_input(operand, piece) {
            Some((_, 0)) => format!(", which cuts the batch{tactic}"),
            Some((argument, dim)) => format!(", which cuts dimension {dim} of {}{tactic}", self.argument(argument)),
            None => tactic,
        }
    }

    /// The op that made a value partial, which may have come a long way, and the operand that it sums.
    fn reduced_operand(&self, value: ValueId, piece: Piece) -> Option<(OpId, usize)> {
        let mut value = value;
        loop {
            let op = self.program.producer(value)?;
            let operands = &self.program.ops[op].operands;
            match operands.iter().find(|&&operand| self.layout.sharding(operand).partial.contains(&piece)) {
                Some(&partial) => value = partial,
                None => {
                    return self
                        .summed_operands(op, piece)
                        .into_iter()
                        .max_by_key(|&operand| {
                            // What is stored says more than what is computed.
                            (self.layout.anatomy.origins[operands[operand].index()].is_some(), operand)
                        })
                        .map(|operand| (op, operand));
                }
            }
        }
    }

    fn summed_operands(&self, op: OpId, piece: Piece) -> Vec<usize> {
        let (rule, strategy) = (self.layout.rule(op), self.layout.strategy(op));
        let is_summed = |&factor: &u16| {
            let factor = usize::from(factor);
            matches!(rule.factors[factor].kind, Kind::Reduced(_)) && strategy.factors[factor].contains(&piece)
        };
        let operands = rule.operands.iter().enumerate();
        operands.filter(|(_, labels)| labels.iter().flatten().any(is_summed)).map(|(index, _)| index).collect()
    }

    /// An input that the same tactic cuts, and the dimension. Whatever is computed from the batch and
    /// cut by its axis is cut along the batch.
    fn cut_input(&self, value: ValueId, piece: Piece) -> Option<(usize, usize)> {
        let cause = self.layout.cause(value, piece)?;
        self.program.body().arguments.iter().enumerate().find_map(|(index, &argument)| {
            let dims = &self.layout.sharding(argument).dims;
            let dim = dims.iter().position(|pieces| pieces.contains(&piece))?;
            let is_input = self.layout.anatomy.classes[index] == ArgumentClass::Input;
            (is_input && self.layout.cause(argument, piece) == Some(cause)).then_some((index, dim))
        })
    }

    /// Such as ` (BP)`: the tactic that brought a piece to a value.
    fn tactic(&self, value: ValueId, piece: Piece) -> String {
        let name = self.layout.cause(value, piece).and_then(|tactic| self.tactics.get(usize::from(tactic)));
        name.map(|name| format!(" ({name})")).unwrap_or_default()
    }

    fn axes(&self, pieces: &[Piece]) -> String {
        format!("`{}`", self.layout.mesh.describe(pieces))
    }

    fn name(&self, op: OpId) -> &str {
        let name = self.program.ops[op].op.name();
        name.rsplit_once('.').map_or(name, |(_, name)| name)
    }

    fn argument(&self, index: usize) -> String {
        match self.program.arguments[index].name.as_str() {
            "" => format!("argument {index}"),
            name => format!("`{name}`"),
        }
    }

    fn result(&self, index: usize) -> String {
        match self.program.results[index].name.as_str() {
            "" => format!("result {index}"),
            name => format!("result `{name}`"),
        }
    }

    fn stored(&self, result: usize) -> String {
        match self.stored_like[result] {
            Some(argument) => format!("{}, stored like argument {},", self.result(result), self.argument(argument)),
            None => self.result(result),
        }
    }
}

/// Pieces that go from one dimension to another, or change places in one.
struct Moved {
    from: usize,
    to: usize,
    pieces: Pieces,
}

/// The first pieces that cut another dimension than before.
fn moved(from: &Sharding, to: &Sharding) -> Option<Moved> {
    for (dim, pieces) in from.dims.iter().enumerate() {
        for &piece in pieces {
            let now = to.dims.iter().position(|pieces| pieces.contains(&piece))?;
            if now != dim {
                let together = pieces.iter().copied().filter(|piece| to.dims[now].contains(piece)).collect();
                return Some(Moved { from: dim, to: now, pieces: together });
            }
        }
    }
    let dim = from.dims.iter().zip(&to.dims).position(|(before, after)| !after.starts_with(before))?;
    Some(Moved { from: dim, to: dim, pieces: from.dims[dim] })
}

fn without(pieces: &[Piece], others: PieceSet) -> Pieces {
    pieces.iter().copied().filter(|&piece| !others.contains(piece)).collect()
}

/// What an op does that leaves parts, and what the parts are of.
fn reduction_words(reduction: Reduction) -> (&'static str, &'static str) {
    match reduction {
        Reduction::And => ("takes the conjunction", "conjunction"),
        Reduction::Max => ("takes the maximum", "maximum"),
        Reduction::Min => ("takes the minimum", "minimum"),
        Reduction::Or => ("takes the disjunction", "disjunction"),
        Reduction::Product => ("takes the product", "product"),
        Reduction::Sum => ("sums", "sum"),
    }
}
