//! Shardings in whole axes, which is all that JAX stores values by.

use meshwright::shard::{Mesh, Part, Sharding};

/// A mesh whose axes are never cut: where a plan stores something by a part of an axis, that axis becomes several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    /// Names and sizes, in the order of device numbers.
    pub sizes: Vec<(String, usize)>,
    /// The axis of the mesh that each is of.
    of: Vec<usize>,
    /// Of every value and dimension the names of the axes that cut it, the most significant first.
    pub dims: Vec<Vec<Vec<String>>>,
}

impl Axes {
    pub fn new<'s>(mesh: &Mesh, stored: impl Iterator<Item = &'s Sharding> + Clone) -> Axes {
        let parts = stored.clone().flat_map(|sharding| &sharding.dims).flat_map(|pieces| mesh.parts(pieces));
        // Where along an axis a part begins or ends, as products of the pieces before.
        let mut ends: Vec<Vec<usize>> = mesh.axes.iter().map(|axis| vec![1, axis.size]).collect();
        for Part { axis, offset, size } in parts {
            ends[axis].extend([offset, offset * size]);
        }
        for of_axis in &mut ends {
            of_axis.sort_unstable();
            of_axis.dedup();
        }
        let names = |axis: usize, from: usize, until: usize| {
            let inside = ends[axis].windows(2).filter(move |pair| from <= pair[0] && pair[1] <= until);
            inside.map(|pair| (name(mesh, &ends, axis, pair[0]), pair[1] / pair[0])).collect::<Vec<_>>()
        };
        let spatial = (0..mesh.axes.len()).filter(|&axis| !mesh.axes[axis].temporal);
        let all = spatial.flat_map(|axis| names(axis, 1, mesh.axes[axis].size).into_iter().map(move |own| (own, axis)));
        let (sizes, of) = all.unzip();
        let cut =
            |Part { axis, offset, size }: Part| names(axis, offset, offset * size).into_iter().map(|(name, _)| name);
        let dims = |sharding: &Sharding| {
            sharding.dims.iter().map(|pieces| mesh.parts(pieces).into_iter().flat_map(cut).collect()).collect()
        };
        Axes { sizes, of, dims: stored.map(dims).collect() }
    }

    /// The same on a mesh that lacks some of the axes.
    pub fn sizes_on(&self, mesh: &Mesh) -> Vec<(String, usize)> {
        let own = |((name, size), &axis): (&(String, usize), &usize)| (name.clone(), (*size).min(mesh.axes[axis].size));
        self.sizes.iter().zip(&self.of).map(own).collect()
    }
}

/// The axis's own name, or `model_2` for its part behind the first two where it is several.
fn name(mesh: &Mesh, ends: &[Vec<usize>], axis: usize, offset: usize) -> String {
    let own = &mesh.axes[axis].name;
    if ends[axis].len() == 2 { own.clone() } else { format!("{own}_{offset}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mesh: &str, stored: &[&str], sizes: &str, dims: &[&str]) {
        let mesh = Mesh::parse(mesh).expect("a mesh");
        let stored: Vec<Sharding> =
            stored.iter().map(|text| Sharding::parse(text, &mesh).expect("a sharding")).collect();
        let axes = Axes::new(&mesh, stored.iter());
        let found: Vec<String> = axes.sizes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        assert_eq!(found.join(","), sizes);
        let value = |value: &Vec<Vec<String>>| value.iter().map(|names| names.join(",")).collect::<Vec<_>>().join("; ");
        assert_eq!(axes.dims.iter().map(value).collect::<Vec<_>>(), dims);
    }

    #[test]
    fn whole_axes_keep_their_names() {
        check(
            "data=2,model=4,micro=8@time",
            &["[{data}, {}]", "[{model,data}]", "[]"],
            "data=2,model=4",
            &["data; ", "model,data", ""],
        );
    }

    #[test]
    fn an_axis_that_is_cut_becomes_several() {
        let stored = ["[{model:(1)2}, {data}]", "[{model}]", "[{model:(4)2,model:(1)2}]"];
        let dims = ["model_1; data", "model_1,model_2,model_4", "model_4,model_1"];
        check("data=3,model=8", &stored, "data=3,model_1=2,model_2=2,model_4=2", &dims);
    }
}
