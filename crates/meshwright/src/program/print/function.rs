//! The function around a program, with or without a mesh.

use std::fmt;

use super::parts::{List, Quoted};
use super::{PrintOptions, Printer, text};
use crate::program::{Argument, Program, Type};

/// What stands around a program that each device of a mesh runs.
///
/// The module then takes and gives whole values, and its function is one `sdy.manual_computation` with
/// the program inside.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Names and sizes of the axes, in the order in which devices are numbered.
    pub axes: Vec<(String, usize)>,
    /// One per argument and one per result of the program.
    pub arguments: Vec<Whole>,
    pub results: Vec<Whole>,
}

/// A value of which each device has a part.
#[derive(Clone, Debug)]
pub struct Whole {
    pub ty: Type,
    /// The dimensions as Shardy writes them, such as `[{"data"}, {}]`.
    pub sharding: String,
}

/// The text of a program that runs on the devices of a mesh.
pub fn print_on_mesh(program: &Program, options: PrintOptions, around: &Surroundings) -> String {
    text(program, options, Some(around))
}

impl Printer<'_> {
    pub(super) fn function(&mut self) -> fmt::Result {
        let (program, around) = (self.program, self.around);
        self.start_line()?;
        self.out.write_str("func.func public @main(")?;
        for (index, &value) in program.body().arguments.iter().enumerate() {
            self.out.write_str(if index == 0 { "" } else { ", " })?;
            let whole = around.and_then(|around| around.arguments.get(index));
            match whole {
                None => write!(self.out, "{value}: {}", program.ty(value))?,
                Some(whole) => write!(self.out, "%argument{index}: {}", whole.ty)?,
            }
            let Some(argument) = program.arguments.get(index) else { continue };
            self.in_braces(&argument_attributes(argument, whole))?;
            if !argument.name.is_empty() {
                write!(self.out, " loc({})", Quoted(&argument.name))?;
            }
        }
        self.out.write_str(")")?;
        self.result_types()?;
        self.out.write_str(" {\n")?;
        match around {
            None => self.region_lines(program.body, "return")?,
            Some(around) => self.manual_computation(around)?,
        }
        self.start_line()?;
        self.out.write_str("}\n")
    }

    fn result_types(&mut self) -> fmt::Result {
        let (program, around) = (self.program, self.around);
        let results = &program.body().results;
        for (index, &value) in results.iter().enumerate() {
            let whole = around.and_then(|around| around.results.get(index));
            let ty = whole.map_or(program.ty(value), |whole| &whole.ty);
            write!(self.out, "{}{ty}", if index == 0 { " -> (" } else { ", " })?;
            let name = program.results.get(index).map_or("", |result| &result.name);
            let mut attributes = Vec::new();
            if !name.is_empty() {
                attributes.push(format!("jax.result_info = {}", Quoted(name)));
            }
            attributes.extend(whole.map(sharding_attribute));
            self.in_braces(&attributes)?;
        }
        self.out.write_str(if results.is_empty() { "" } else { ")" })
    }

    fn in_braces(&mut self, attributes: &[String]) -> fmt::Result {
        if attributes.is_empty() { Ok(()) } else { write!(self.out, " {{{}}}", List(attributes)) }
    }

    /// The body of the function: everything inside one region where each device has its parts.
    fn manual_computation(&mut self, around: &Surroundings) -> fmt::Result {
        let program = self.program;
        let Surroundings { axes, arguments, results } = around;
        let names = |kind: &str, count: usize| -> Vec<String> { (0..count).map(|i| format!("%{kind}{i}")).collect() };
        let shardings = |wholes: &[Whole]| -> Vec<String> {
            wholes.iter().map(|whole| format!("<@mesh, {}>", whole.sharding)).collect()
        };
        let types = |wholes: &[Whole]| -> Vec<String> { wholes.iter().map(|whole| whole.ty.to_string()).collect() };
        let axes: Vec<String> = axes.iter().map(|(name, _)| Quoted(name).to_string()).collect();
        let outputs = names("result", results.len());
        self.indent += 1;
        self.start_line()?;
        if !outputs.is_empty() {
            write!(self.out, "{} = ", List(&outputs))?;
        }
        write!(
            self.out,
            "sdy.manual_computation({}) in_shardings=[{}] out_shardings=[{}] manual_axes={{{}}} (",
            List(&names("argument", arguments.len())),
            List(&shardings(arguments)),
            List(&shardings(results)),
            List(&axes),
        )?;
        self.typed_values(program.body().arguments.iter().copied())?;
        self.out.write_str(") {\n")?;
        self.region_lines(program.body, "sdy.return")?;
        self.start_line()?;
        writeln!(self.out, "}} : ({}) -> ({})", List(&types(arguments)), List(&types(results)))?;
        self.start_line()?;
        self.out.write_str("return")?;
        if !outputs.is_empty() {
            write!(self.out, " {} : {}", List(&outputs), List(&types(results)))?;
        }
        self.indent -= 1;
        self.out.write_str("\n")
    }

    /// `sdy.mesh @mesh = <["data"=2, "model"=4]>`.
    pub(super) fn mesh(&mut self, around: &Surroundings) -> fmt::Result {
        let axes: Vec<String> = around.axes.iter().map(|(name, size)| format!("{}={size}", Quoted(name))).collect();
        self.start_line()?;
        writeln!(self.out, "sdy.mesh @mesh = <[{}]>", List(&axes))
    }
}

/// What is said of an argument in braces, in alphabetical order.
fn argument_attributes(argument: &Argument, whole: Option<&Whole>) -> Vec<String> {
    let mut attributes = Vec::new();
    if argument.donated {
        attributes.push("jax.buffer_donor = true".to_owned());
    }
    attributes.extend(whole.map(sharding_attribute));
    if let Some(result) = argument.alias {
        attributes.push(format!("tf.aliasing_output = {result} : i32"));
    }
    attributes
}

fn sharding_attribute(whole: &Whole) -> String {
    format!("sdy.sharding = #sdy.sharding<@mesh, {}>", whole.sharding)
}
