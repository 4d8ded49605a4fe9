//! What things are called and where they are, for messages.

use meshwright::profile::module_path;
use meshwright::program::{Location, LocationId, OpId, Program, Type};

/// Where an op came from, as far as it is known: `step.py:12:3` or its scope, in backticks.
pub fn place(program: &Program, location: LocationId) -> Option<String> {
    let location = &program.locations[location];
    position(location).or_else(|| (!location.scope.is_empty()).then(|| format!("`{}`", location.scope)))
}

/// Where an op came from: `step.py:12:3`, or its scope.
pub fn location(program: &Program, op: OpId) -> Option<String> {
    let location = &program.locations[program.ops[op].location];
    position(location).or_else(|| (!location.scope.is_empty()).then(|| location.scope.to_string()))
}

/// Such as `step.py:12:3`.
pub fn position(location: &Location) -> Option<String> {
    (!location.file.is_empty()).then(|| format!("{}:{}:{}", location.file, location.line, location.column))
}

/// The modules around an op, such as `layers.0.attn`.
pub fn module_of(program: &Program, op: OpId) -> Option<String> {
    let modules = module_path(&program.locations[program.ops[op].location]);
    (!modules.is_empty()).then(|| modules.join("."))
}

/// The modules around an op, or else where it came from.
pub fn op_place(program: &Program, op: OpId) -> Option<String> {
    module_of(program, op).or_else(|| location(program, op))
}

/// The name of an op without its dialect.
pub fn op_name(program: &Program, op: OpId) -> &str {
    let name = program.ops[op].op.name();
    name.rsplit_once('.').map_or(name, |(_, name)| name)
}

/// Such as `bf16[4096,11008]`.
pub fn short_type(ty: &Type) -> String {
    let sizes: Vec<String> = ty.shape.iter().map(ToString::to_string).collect();
    format!("{}[{}]", ty.dtype, sizes.join(","))
}
