//! The forms that several ops share, and those of ops that need more than a line.

use std::fmt;

use super::Printer;
use super::literal::Real;
use super::parts::{ConvolutionDims, List, Name, Pairs, Precisions, Quoted, Signature, Types};
use crate::program::{
    Binary, Check, Convolution, CustomCall, Direction, Op, Opaque, Operation, Order, RegionId, ValueId,
};

/// Limits that a check has when its custom call does not say otherwise; those of StableHLO's own
/// reference interpreter.
const CHECK_TOLERANCE: f64 = 1e-3;
const CHECK_MIN_ULPS: u64 = 0;
const CHECK_MAX_ULPS: u64 = 3;

impl<'a> Printer<'a> {
    /// `"name"(%1, %2) <{properties}> ({regions}) : signature`, which any op may have.
    pub(super) fn generic(&mut self, operation: &'a Operation, properties: fmt::Arguments<'_>) -> fmt::Result {
        write!(self.out, "{}({})", Quoted(operation.op.name()), List(&operation.operands))?;
        if properties.as_str() != Some("") {
            write!(self.out, " <{{{properties}}}>")?;
        }
        self.regions(&operation.regions)?;
        write!(self.out, " : {}", Signature { program: self.program, operation })
    }

    fn regions(&mut self, regions: &[RegionId]) -> fmt::Result {
        for (index, &region) in regions.iter().enumerate() {
            self.out.write_str(if index == 0 { " ({\n" } else { "}, {\n" })?;
            let arguments = &self.program.regions[region].arguments;
            if !arguments.is_empty() {
                self.start_line()?;
                self.out.write_str("^bb0(")?;
                self.typed_values(arguments.iter().copied())?;
                self.out.write_str("):\n")?;
            }
            self.region_lines(region, "stablehlo.return")?;
            self.start_line()?;
        }
        self.out.write_str(if regions.is_empty() { "" } else { "})" })
    }

    /// `%1: tensor<f32>, %2: tensor<f32>`.
    pub(super) fn typed_values(&mut self, values: impl Iterator<Item = ValueId>) -> fmt::Result {
        for (index, value) in values.enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(self.out, "{separator}{value}: {}", self.program.ty(value))?;
        }
        Ok(())
    }

    /// `name %1, %2 : type`, or the whole signature where the types differ.
    pub(super) fn elementwise(&mut self, operation: &Operation) -> fmt::Result {
        let signature = Signature { program: self.program, operation };
        write!(self.out, "{} {} : {}", operation.op.name(), List(&operation.operands), signature.shortened())
    }

    /// `name %1, %2 : type, type -> type`, the form of the chlo dialect.
    pub(super) fn chlo(&mut self, operation: &Operation) -> fmt::Result {
        let operands = Types { program: self.program, values: &operation.operands };
        let results = Types { program: self.program, values: &operation.results };
        write!(self.out, "{} {} : {operands} -> {results}", operation.op.name(), List(&operation.operands))
    }

    pub(super) fn check(&mut self, check: Check, operation: &Operation) -> fmt::Result {
        let name = operation.op.name();
        write!(self.out, "stablehlo.custom_call @{name}({}) {{has_side_effect = true", List(&operation.operands))?;
        match check {
            Check::AlmostEqual { tolerance } if tolerance != CHECK_TOLERANCE => {
                write!(self.out, ", tolerance = {} : f64", Real::F64(tolerance))?;
            }
            Check::Close { min_ulps, max_ulps } => {
                if max_ulps != CHECK_MAX_ULPS {
                    write!(self.out, ", max_ulp_difference = {max_ulps} : i64")?;
                }
                if min_ulps != CHECK_MIN_ULPS {
                    write!(self.out, ", min_ulp_difference = {min_ulps} : i64")?;
                }
            }
            Check::AlmostEqual { .. } | Check::Equal => {}
        }
        write!(self.out, "}} : {}", Signature { program: self.program, operation })
    }

    pub(super) fn compare(&mut self, direction: Direction, order: Order, operation: &Operation) -> fmt::Result {
        write!(self.out, "stablehlo.compare {}, {}", direction.name(), List(&operation.operands))?;
        // Saying nothing is how the natural order is written.
        if order != Order::Natural {
            write!(self.out, ", {}", order.name())?;
        }
        write!(self.out, " : {}", Signature { program: self.program, operation })
    }

    pub(super) fn convolution(&mut self, convolution: &Convolution, operation: &Operation) -> fmt::Result {
        let Convolution { strides, padding, lhs_dilation, rhs_dilation, reversal, .. } = convolution;
        write!(
            self.out,
            "stablehlo.convolution({}) dim_numbers = {}, window = {{",
            List(&operation.operands),
            ConvolutionDims(convolution)
        )?;
        let mut separator = "";
        for (name, list) in [
            ("stride", &List(strides) as &dyn fmt::Display),
            ("pad", &Pairs(padding)),
            ("lhs_dilate", &List(lhs_dilation)),
            ("rhs_dilate", &List(rhs_dilation)),
            ("reverse", &List(reversal)),
        ] {
            // The window of a convolution without spatial dimensions has nothing to say.
            if !convolution.input_spatial.is_empty() {
                write!(self.out, "{separator}{name} = [{list}]")?;
                separator = ", ";
            }
        }
        write!(
            self.out,
            "}} {{batch_group_count = {} : i64, feature_group_count = {} : i64",
            convolution.batch_groups, convolution.feature_groups
        )?;
        if !convolution.precision.is_empty() {
            let precision = Precisions { list: &convolution.precision, attribute: true };
            write!(self.out, ", precision_config = [{precision}]")?;
        }
        write!(self.out, "}} : {}", Signature { program: self.program, operation })
    }

    pub(super) fn custom_call(&mut self, call: &CustomCall, operation: &Operation) -> fmt::Result {
        write!(self.out, "stablehlo.custom_call @{}({})", Name(&call.target), List(&operation.operands))?;
        let mut separator = " {";
        if call.has_side_effect {
            write!(self.out, "{separator}has_side_effect = true")?;
            separator = ", ";
        }
        separator = self.attributes(&call.attributes, separator)?;
        if let Some(rule) = &call.rule {
            write!(self.out, "{separator}meshwright.rule = {}", Quoted(rule))?;
            separator = ", ";
        }
        let close = if separator == ", " { "}" } else { "" };
        write!(self.out, "{close} : {}", Signature { program: self.program, operation })
    }

    pub(super) fn opaque(&mut self, opaque: &Opaque, operation: &Operation) -> fmt::Result {
        write!(self.out, "{}({})", Quoted(&opaque.name), List(&operation.operands))?;
        self.regions(&operation.regions)?;
        let separator = self.attributes(&opaque.attributes, " {")?;
        let close = if separator == ", " { "}" } else { "" };
        write!(self.out, "{close} : {}", Signature { program: self.program, operation })
    }

    /// Writes attributes as they came; gives back what has to stand before the next one.
    fn attributes(
        &mut self,
        attributes: &[(String, String)],
        mut separator: &'static str,
    ) -> Result<&'static str, fmt::Error> {
        for (name, value) in attributes {
            write!(self.out, "{separator}{}", Name(name))?;
            // A unit attribute has no value.
            if !value.is_empty() {
                write!(self.out, " = {value}")?;
            }
            separator = ", ";
        }
        Ok(separator)
    }

    pub(super) fn reduce(&mut self, dims: &[usize], operation: &'a Operation) -> fmt::Result {
        let inputs = operation.operands.len() / 2;
        self.out.write_str("stablehlo.reduce")?;
        for (index, input) in operation.operands[..inputs].iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(self.out, "{separator}({input} init: {})", operation.operands[inputs + index])?;
        }
        let applied = self.applied_binary(operation);
        if let Some(binary) = applied {
            write!(self.out, " applies {}", binary.name())?;
        }
        let signature = Signature { program: self.program, operation };
        write!(self.out, " across dimensions = [{}] : {signature}", List(dims))?;
        let (None, &[region]) = (applied, operation.regions.as_slice()) else { return Ok(()) };
        self.out.write_str("\n")?;
        self.start_line()?;
        // The region takes all running values and then all new elements; the text pairs them.
        self.out.write_str(" reducer")?;
        let arguments = &self.program.regions[region].arguments;
        let (running, elements) = arguments.split_at(arguments.len() / 2);
        for (index, (&running, &element)) in running.iter().zip(elements).enumerate() {
            self.out.write_str(if index == 0 { "(" } else { " (" })?;
            self.typed_values([running, element].into_iter())?;
            self.out.write_str(")")?;
        }
        self.out.write_str(" {\n")?;
        self.region_lines(region, "stablehlo.return")?;
        self.start_line()?;
        self.out.write_str("}")
    }

    /// The op that a reduction applies, where its region is so plain that the op's name says it
    /// all: one commutative op on the two arguments in their order, at a place that the text of
    /// the reduction will not lose.
    fn applied_binary(&self, operation: &Operation) -> Option<Binary> {
        let &[region] = operation.regions.as_slice() else { return None };
        let &[input, start] = operation.operands.as_slice() else { return None };
        let region = &self.program.regions[region];
        let &[inner] = region.ops.as_slice() else { return None };
        let inner = &self.program.ops[inner];
        let Op::Binary(binary) = inner.op else { return None };
        let commutative = matches!(
            binary,
            Binary::Add | Binary::And | Binary::Maximum | Binary::Minimum | Binary::Multiply | Binary::Or | Binary::Xor
        );
        // A reader of the short form gives the region the element type of the input.
        let dtype = self.program.dtype(input);
        let same_type = self.program.dtype(start) == dtype
            && inner.operands.iter().chain(&inner.results).all(|&value| self.program.dtype(value) == dtype);
        let plain = region.arguments.len() == 2
            && inner.operands[..] == region.arguments[..]
            && inner.results[..] == region.results[..];
        let same_place = !self.locations || inner.location == operation.location;
        (commutative && same_type && plain && same_place).then_some(binary)
    }

    pub(super) fn select(&mut self, operation: &Operation) -> fmt::Result {
        let program = self.program;
        write!(self.out, "stablehlo.select {} : ", List(&operation.operands))?;
        match operation.operands.as_slice() {
            &[predicate, on_true, on_false] if program.ty(on_true) == program.ty(on_false) => {
                write!(self.out, "{}, {}", program.ty(predicate), program.ty(on_true))
            }
            _ => write!(self.out, "{}", Signature { program, operation }),
        }
    }
}
