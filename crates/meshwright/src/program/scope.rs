//! Scopes as people know them, without what tracing put around them.

use super::Location;

impl Location {
    /// The parts of the scope with the op's own name last: of `jit(step)/transpose(jvp(layer0))/attn/dot`
    /// these are `layer0`, `attn`, `dot`.
    pub fn scope_parts(&self) -> Vec<&str> {
        scope_parts(&self.scope)
    }

    /// The modules around the op, outermost first: the parts of its scope but for its own name and for what
    /// nobody but JAX named.
    pub fn modules(&self) -> Vec<&str> {
        let mut parts = scope_parts(&self.scope);
        parts.pop();
        parts.retain(|part| !is_put_between(part));
        // A loop over a module names it again inside. The first layer of the first group is no such thing.
        parts.dedup_by(|inner, outer| inner == outer && !inner.bytes().all(|byte| byte.is_ascii_digit()));
        parts
    }
}

/// Whether nobody but JAX named it: parts of loops, functions that it keeps to itself, and formulas of `einsum`.
fn is_put_between(part: &str) -> bool {
    PUT_BETWEEN.contains(&part) || part.starts_with('_') || part.contains("->")
}

/// What JAX calls parts of loops, branches and recomputed functions.
const PUT_BETWEEN: [&str; 7] = ["body", "branch", "checkpoint", "closed_call", "cond", "rematted_computation", "while"];

pub(crate) fn scope_parts(scope: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in scope.split('/') {
        if part.starts_with("jit(") || part.starts_with("pjit(") {
            continue;
        }
        parts.extend(bare(part).split('.').filter(|part| !part.is_empty()));
    }
    parts
}

/// A part of a scope without the words that tracing and differentiation put around it: of
/// `transpose(jvp(gelu))` that is `gelu`.
pub(crate) fn bare(part: &str) -> &str {
    part.rsplit('(').next().unwrap_or(part).trim_end_matches(')')
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[track_caller]
    fn check(scope: &str, expected: &[&str]) {
        let location = Location { scope: Arc::from(scope), ..Location::unknown() };
        assert_eq!(location.modules(), expected);
    }

    #[test]
    fn modules_are_what_people_named() {
        check("", &[]);
        check("layers.0/attn/dot_general", &["layers", "0", "attn"]);
        check("transpose(groups.0.0)/convolution", &["groups", "0", "0"]);
        check("jit(step)/dot_general", &[]);
        check("jit(step)/transpose(jvp(layer0))/attn/bqhd,bkhd->bhqk/dot_general", &["layer0", "attn"]);
        check("jit(step)/layer/while/body/closed_call/checkpoint/layer/mlp/_inner/add", &["layer", "mlp"]);
    }
}
