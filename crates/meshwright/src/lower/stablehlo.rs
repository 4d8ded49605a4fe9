//! Local programs as StableHLO that XLA compiles and runs.

use super::LocalProgram;
use crate::program::{AttentionForm, PrintOptions, Surroundings, Type, ValueId, Whole, print, print_on_mesh};
use crate::shard::{Mesh, Part, Piece, Sharding};

/// A module of whole values in which every device runs the local program on its parts.
///
/// The mesh is written in Shardy's terms, so any caller that knows those can place the arguments. Axes
/// in time are none of XLA's business and left out. Attention is expanded, because nothing else runs
/// everywhere, and ops keep their locations, by which XLA's profiles name them.
pub fn stablehlo(local: &LocalProgram) -> String {
    let options = PrintOptions { locations: true, attention: AttentionForm::Expanded };
    if local.mesh.devices() == 1 {
        // XLA partitions nothing for a single device, and then knows no manual computations.
        return print(&local.program, options);
    }
    let spatial = local.mesh.axes.iter().filter(|axis| !axis.temporal);
    let body = local.program.body();
    let around = Surroundings {
        axes: spatial.map(|axis| (axis.name.clone(), axis.size)).collect(),
        arguments: wholes(local, &body.arguments, &local.arguments),
        results: wholes(local, &body.results, &local.results),
    };
    print_on_mesh(&local.program, options, &around)
}

fn wholes(local: &LocalProgram, values: &[ValueId], stored: &[Sharding]) -> Vec<Whole> {
    let whole = |(&value, sharding): (&ValueId, &Sharding)| {
        let dims: Vec<String> = sharding.dims.iter().map(|pieces| axes(&local.mesh, pieces)).collect();
        let ty = whole_type(&local.mesh, local.program.ty(value), sharding);
        Whole { ty, sharding: format!("[{}]", dims.join(", ")) }
    };
    values.iter().zip(stored).map(whole).collect()
}

/// What is stored is cut evenly, so its parts make up the whole without padding.
fn whole_type(mesh: &Mesh, part: &Type, sharding: &Sharding) -> Type {
    let sizes = part.shape.iter().zip(&sharding.dims).map(|(&size, pieces)| size * mesh.product(pieces));
    Type { dtype: part.dtype, shape: sizes.collect() }
}

/// Such as `{"data", "model":(1)2}`.
fn axes(mesh: &Mesh, pieces: &[Piece]) -> String {
    let written = |Part { axis, offset, size }: &Part| match &mesh.axes[*axis] {
        axis if axis.size == *size => format!("\"{}\"", axis.name),
        axis => format!("\"{}\":({offset}){size}", axis.name),
    };
    let parts: Vec<String> = mesh.parts(pieces).iter().map(written).collect();
    format!("{{{}}}", parts.join(", "))
}
