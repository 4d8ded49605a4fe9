//! Small pieces of text, each written by a `Display` of its own so that no piece allocates.

use std::fmt::{self, Display, Write};

use crate::program::{Convolution, Dims, Location, Operation, Precision, Program, Slice, ValueId};

/// `1, 2, 3`.
pub(super) struct List<'a, T>(pub(super) &'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{item}")?;
        }
        Ok(())
    }
}

/// `array<i64: 1, 2>`.
pub(super) struct IntegerArray<'a>(pub(super) &'a [usize]);

impl Display for IntegerArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.0.is_empty() { "" } else { ": " };
        write!(f, "array<i64{separator}{}>", List(self.0))
    }
}

/// `[0, 1], [1, 0]`.
pub(super) struct Pairs<'a>(pub(super) &'a [(i64, i64)]);

impl Display for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, second)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}[{first}, {second}]")?;
        }
        Ok(())
    }
}

/// `dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>`.
pub(super) struct DensePairs<'a>(pub(super) &'a [(i64, i64)]);

impl Display for DensePairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("dense<> : tensor<0x2xi64>");
        }
        write!(f, "dense<[{}]> : tensor<{}x2xi64>", Pairs(self.0), self.0.len())
    }
}

/// `dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>`, where -1 fills up groups shorter than the longest.
pub(super) struct DenseGroups<'a>(pub(super) &'a [Vec<i64>]);

impl Display for DenseGroups<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(Vec::len).max().unwrap_or(0);
        f.write_str("dense<")?;
        if width > 0 {
            for (index, group) in self.0.iter().enumerate() {
                f.write_str(if index == 0 { "[[" } else { ", [" })?;
                for member in 0..width {
                    let separator = if member == 0 { "" } else { ", " };
                    write!(f, "{separator}{}", group.get(member).unwrap_or(&-1))?;
                }
                f.write_str("]")?;
            }
            f.write_str("]")?;
        }
        write!(f, "> : tensor<{}x{width}xi64>", self.0.len())
    }
}

/// The channel of a collective and the comma after it, or nothing.
pub(super) struct Channel(pub(super) i64);

impl Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return Ok(());
        }
        // Type 1 is from device to device, the only kind a collective can be.
        write!(f, "channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>, ", self.0)
    }
}

/// The mark of flattened ids and the comma before it, or nothing.
pub(super) struct GlobalIds(pub(super) bool);

impl Display for GlobalIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { ", use_global_device_ids" } else { "" })
    }
}

/// The dimension numbers of a gather or a scatter. What is empty or zero goes without saying.
pub(super) struct Fields<'a> {
    pub(super) lists: [(&'static str, &'a Dims); 5],
    pub(super) index_vector_dim: usize,
}

impl Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, dims) in self.lists {
            if !dims.is_empty() {
                write!(f, "{separator}{name} = [{}]", List(dims))?;
                separator = ", ";
            }
        }
        if self.index_vector_dim != 0 {
            write!(f, "{separator}index_vector_dim = {}", self.index_vector_dim)?;
        }
        Ok(())
    }
}

/// `DEFAULT, HIGH`, or the same as attributes.
pub(super) struct Precisions<'a> {
    pub(super) list: &'a [Precision],
    pub(super) attribute: bool,
}

impl Display for Precisions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, precision) in self.list.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let name = precision.name();
            if self.attribute {
                write!(f, "{separator}#stablehlo<precision {name}>")?;
            } else {
                write!(f, "{separator}{name}")?;
            }
        }
        Ok(())
    }
}

/// `0:4, 1:8:2`: start, limit, and the stride where it is not 1.
pub(super) struct LimitedRanges<'a>(pub(super) &'a Slice);

impl Display for LimitedRanges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slice { start, limit, strides } = self.0;
        for (index, ((start, limit), &stride)) in start.iter().zip(limit).zip(strides).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{start}:{limit}")?;
            if stride != 1 {
                write!(f, ":{stride}")?;
            }
        }
        Ok(())
    }
}

/// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
pub(super) struct ConvolutionDims<'a>(pub(super) &'a Convolution);

impl Display for ConvolutionDims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = self.0;
        write_roles(f, ("b", dims.input_batch), ("f", dims.input_feature), &dims.input_spatial)?;
        f.write_str("x")?;
        write_roles(f, ("i", dims.kernel_input_feature), ("o", dims.kernel_output_feature), &dims.kernel_spatial)?;
        f.write_str("->")?;
        write_roles(f, ("b", dims.output_batch), ("f", dims.output_feature), &dims.output_spatial)
    }
}

/// What each dimension is for: one of two letters, or the number of a spatial dimension.
fn write_roles(
    f: &mut fmt::Formatter<'_>,
    first: (&str, usize),
    second: (&str, usize),
    spatial: &[usize],
) -> fmt::Result {
    f.write_str("[")?;
    for dim in 0..spatial.len() + 2 {
        f.write_str(if dim == 0 { "" } else { ", " })?;
        if dim == first.1 {
            f.write_str(first.0)?;
        } else if dim == second.1 {
            f.write_str(second.0)?;
        } else if let Some(number) = spatial.iter().position(|&position| position == dim) {
            write!(f, "{number}")?;
        } else {
            f.write_str("?")?;
        }
    }
    f.write_str("]")
}

/// The types of values: `tensor<4xf32>, tensor<f32>`.
#[derive(Clone, Copy)]
pub(super) struct Types<'a> {
    pub(super) program: &'a Program,
    pub(super) values: &'a [ValueId],
}

impl Display for Types<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &value) in self.values.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", self.program.ty(value))?;
        }
        Ok(())
    }
}

/// `(tensor<4xf32>, tensor<f32>) -> tensor<f32>`.
#[derive(Clone, Copy)]
pub(super) struct Signature<'a> {
    pub(super) program: &'a Program,
    pub(super) operation: &'a Operation,
}

impl<'a> Signature<'a> {
    /// The same, but one type where all operands and the result have it.
    pub(super) fn shortened(self) -> ShortSignature<'a> {
        ShortSignature(self)
    }
}

impl Display for Signature<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands = Types { program: self.program, values: &self.operation.operands };
        let results = Types { program: self.program, values: &self.operation.results };
        if results.values.len() == 1 {
            write!(f, "({operands}) -> {results}")
        } else {
            write!(f, "({operands}) -> ({results})")
        }
    }
}

pub(super) struct ShortSignature<'a>(Signature<'a>);

impl Display for ShortSignature<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Signature { program, operation } = self.0;
        if let [result] = operation.results[..] {
            let ty = program.ty(result);
            if operation.operands.iter().all(|&operand| program.ty(operand) == ty) {
                return write!(f, "{ty}");
            }
        }
        write!(f, "{}", self.0)
    }
}

/// A string in quotes, with what is not printable ASCII as two hex digits.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        let mut rest = self.0.as_bytes();
        while let Some(position) = rest.iter().position(|&byte| needs_escape(byte)) {
            f.write_str(ascii(&rest[..position]))?;
            match rest[position] {
                b'\\' => f.write_str("\\\\")?,
                byte => write!(f, "\\{byte:02X}")?,
            }
            rest = &rest[position + 1..];
        }
        f.write_str(ascii(rest))?;
        f.write_char('"')
    }
}

fn needs_escape(byte: u8) -> bool {
    !(b' '..=b'~').contains(&byte) || byte == b'"' || byte == b'\\'
}

fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("bytes without escapes are ASCII")
}

/// The name of a symbol or an attribute: bare where that is possible, else in quotes.
pub(super) struct Name<'a>(pub(super) &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starts_well = self.0.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
        if starts_well && self.0.bytes().all(bare) { f.write_str(self.0) } else { write!(f, "{}", Quoted(self.0)) }
    }
}

/// `"scope"("file":1:2)`, or as much of it as is known.
pub(super) struct LocationText<'a>(pub(super) &'a Location);

impl Display for LocationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location { scope, file, line, column } = self.0;
        match (scope.is_empty(), file.is_empty()) {
            (true, true) => f.write_str("unknown"),
            (true, false) => write!(f, "{}:{line}:{column}", Quoted(file)),
            (false, true) => write!(f, "{}", Quoted(scope)),
            (false, false) => write!(f, "{}({}:{line}:{column})", Quoted(scope), Quoted(file)),
        }
    }
}
