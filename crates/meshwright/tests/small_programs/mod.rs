//! Programs of up to twelve ops as text: small enough that all ways to cut them can be tried.

mod generate;
mod written;

/// A program with a name that says where it is from.
#[derive(Clone, Debug)]
pub(crate) struct SmallProgram {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Those written by hand, then as many that are made up. Sizes of dimensions are a few times `unit`.
pub(crate) fn small_programs(unit: usize, generated: u64) -> Vec<SmallProgram> {
    let mut programs = written::written(unit);
    programs.extend((0..generated).map(|seed| generate::generate(seed, unit)));
    programs
}

/// The type of a tensor of `f32`, as it is written.
fn tensor(shape: &[usize]) -> String {
    let sizes: String = shape.iter().map(|size| format!("{size}x")).collect();
    format!("tensor<{sizes}f32>")
}

/// Lines of a function under way.
#[derive(Debug, Default)]
struct Writer {
    arguments: Vec<String>,
    lines: Vec<String>,
    /// The shapes of all values, and how often each is read. The number of a value is its name.
    shapes: Vec<Vec<usize>>,
    reads: Vec<usize>,
    /// Arguments whose next value a result is.
    state: Vec<(usize, usize)>,
    ops: usize,
}

impl Writer {
    fn value(&mut self, shape: &[usize]) -> usize {
        self.shapes.push(shape.to_vec());
        self.reads.push(0);
        self.shapes.len() - 1
    }

    fn argument(&mut self, shape: &[usize]) -> usize {
        let value = self.value(shape);
        self.arguments.push(format!("%v{value}"));
        value
    }

    /// Adds an op that is written with its operands, as in `stablehlo.add %v0, %v1 : type`.
    fn op(&mut self, name: &str, operands: &[usize], attributes: &str, shape: &[usize]) -> usize {
        let result = self.value(shape);
        let names: Vec<String> = operands.iter().map(|operand| format!("%v{operand}")).collect();
        let types: Vec<String> = operands.iter().map(|&operand| tensor(&self.shapes[operand])).collect();
        operands.iter().for_each(|&operand| self.reads[operand] += 1);
        let (names, types, own) = (names.join(", "), types.join(", "), tensor(shape));
        self.lines.push(format!("%v{result} = stablehlo.{name} {names}{attributes} : ({types}) -> {own}"));
        self.ops += 1;
        result
    }

    fn product(&mut self, left: usize, right: usize, contracted: [usize; 2]) -> usize {
        let [of_left, of_right] = contracted;
        let shape = [self.shapes[left][1 - of_left], self.shapes[right][1 - of_right]];
        let attributes = format!(", contracting_dims = [{of_left}] x [{of_right}]");
        self.op("dot_general", &[left, right], &attributes, &shape)
    }

    fn alike(&mut self, name: &str, operands: &[usize]) -> usize {
        let shape = self.shapes[operands[0]].clone();
        self.op(name, operands, "", &shape)
    }

    fn transpose(&mut self, of: usize) -> usize {
        let shape: Vec<usize> = self.shapes[of].iter().rev().copied().collect();
        let dims: Vec<String> = (0..shape.len()).rev().map(|dim| dim.to_string()).collect();
        self.op("transpose", &[of], &format!(", dims = [{}]", dims.join(", ")), &shape)
    }

    fn reshape(&mut self, of: usize, shape: &[usize]) -> usize {
        self.op("reshape", &[of], "", shape)
    }

    /// `dims` are those of the result that the operand has.
    fn broadcast(&mut self, of: usize, shape: &[usize], dims: &[usize]) -> usize {
        let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
        self.op("broadcast_in_dim", &[of], &format!(", dims = [{}]", dims.join(", ")), shape)
    }

    /// The sum, or the `maximum`, over a dimension.
    fn reduce(&mut self, of: usize, binary: &str, dim: usize) -> usize {
        let before = self.shapes[of].clone();
        let mut shape = before.clone();
        shape.remove(dim);
        let result = self.value(&shape);
        self.reads[of] += 1;
        let (before, after) = (tensor(&before), tensor(&shape));
        let start = if binary == "maximum" { "0xFF800000" } else { "0.0" };
        self.lines.push(format!("%c{result} = stablehlo.constant dense<{start}> : tensor<f32>"));
        self.lines.push(format!(
            "%v{result} = stablehlo.reduce(%v{of} init: %c{result}) applies stablehlo.{binary} across dimensions = \
             [{dim}] : ({before}, tensor<f32>) -> {after}"
        ));
        self.ops += 1;
        result
    }

    /// The module. Values that nobody reads are its results.
    fn finish(self, name: &str) -> SmallProgram {
        let results: Vec<usize> = (self.arguments.len()..self.shapes.len()).collect();
        let is_argument = |value: usize| self.arguments.contains(&format!("%v{value}"));
        let unread = |&value: &usize| self.reads[value] == 0 && !is_argument(value);
        let mut results: Vec<usize> = results.into_iter().filter(unread).collect();
        results.sort_by_key(|result| !self.state.iter().any(|(_, next)| next == result));
        let argument = |value: usize| {
            let next = self.state.iter().find(|(argument, _)| *argument == value);
            let place = next.and_then(|(_, next)| results.iter().position(|result| result == next));
            let alias = place.map(|place| format!(" {{tf.aliasing_output = {place} : i32}}")).unwrap_or_default();
            format!("%v{value}: {}{alias}", tensor(&self.shapes[value]))
        };
        let arguments: Vec<String> = (0..self.shapes.len()).filter(|&value| is_argument(value)).map(argument).collect();
        let names: Vec<String> = results.iter().map(|value| format!("%v{value}")).collect();
        let types: Vec<String> = results.iter().map(|&value| tensor(&self.shapes[value])).collect();
        let (arguments, names, types) = (arguments.join(", "), names.join(", "), types.join(", "));
        let lines = self.lines.join("\n    ");
        let text = format!(
            "module {{\n  func.func @main({arguments}) -> ({types}) {{\n    {lines}\n    return {names} : {types}\n  }}\n}}\n"
        );
        SmallProgram { name: name.to_owned(), text }
    }
}
