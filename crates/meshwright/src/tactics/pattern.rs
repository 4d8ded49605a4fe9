//! Patterns over dotted names and scopes.

use crate::program::scope_parts;

/// A glob: `*` stands for anything within a part, `**` for any number of parts. Parts are set apart
/// by `.` or `/`, as in `params.layers.*.attn.**` or `**/softmax`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<String>,
}

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        Pattern { text: text.to_owned(), parts: text.split(['.', '/']).map(str::to_owned).collect() }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern is the name.
    pub fn matches(&self, name: &str) -> bool {
        let parts: Vec<&str> = name.split(['.', '/']).collect();
        matches_parts(&self.parts, &parts)
    }

    /// The innermost of the scopes around an op that the pattern is, as a path.
    pub fn scope(&self, scope: &str) -> Option<String> {
        let parts = scope_parts(scope);
        let length = (1..=parts.len()).rev().find(|&length| matches_parts(&self.parts, &parts[..length]))?;
        Some(parts[..length].join("/"))
    }
}

impl Pattern {
    /// The outermost of the scopes around an op that the pattern is, down to the number that tells
    /// it apart from others of its kind: of `layers/0/attn/dot`, `**` is `layers/0`, and of `groups/0/1/conv`
    /// it is `groups/0/1`.
    pub fn instance(&self, scope: &str) -> Option<String> {
        let parts = scope_parts(scope);
        let length = (1..=parts.len()).find(|&length| matches_parts(&self.parts, &parts[..length]))?;
        // Blocks of a group have two numbers.
        let is_number = |part: &&str| part.parse::<usize>().is_ok();
        let first = parts.iter().take_while(|part| !is_number(part)).count();
        let numbers = parts[first..].iter().take_while(|part| is_number(part)).count();
        let end = if numbers == 0 { 0 } else { first + numbers };
        Some(parts[..length.max(end)].join("/"))
    }
}

/// Tables of which beginnings of the pattern match which beginnings of the name, so that many `**`
/// cost no more than one.
fn matches_parts(pattern: &[String], parts: &[&str]) -> bool {
    let mut fits = vec![false; parts.len() + 1];
    fits[0] = true;
    for piece in pattern {
        let mut next = vec![false; parts.len() + 1];
        if piece == "**" {
            let mut any = false;
            for (index, fit) in fits.iter().enumerate() {
                any |= fit;
                next[index] = any;
            }
        } else {
            for (index, part) in parts.iter().enumerate() {
                next[index + 1] = fits[index] && matches_part(piece, part);
            }
        }
        fits = next;
    }
    fits[parts.len()]
}

fn matches_part(pattern: &str, part: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or("");
    let Some(mut rest) = part.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_within_a_part_and_double_stars_across() {
        #[track_caller]
        fn check(pattern: &str, name: &str, expected: bool) {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} on {name}");
        }
        check("params.*.w", "params.a.w", true);
        check("params.*.w", "params.a.b.w", false);
        check("params.**.w", "params.a.b.w", true);
        check("params.**.w", "params.w", true);
        check("**", "", true);
        check("batch.**", "batch.0", true);
        check("batch.**", "batch", true);
        check("params.**.ln*", "params.layers.0.ln1", true);
        check("a*b*c", "abc", true);
        check("a*b*c", "ab", false);
        check("a", "ab", false);
        check("*", "ab", true);
        check("**.**.x", "x", true);
    }

    #[test]
    fn instances_end_with_their_number() {
        let instance = |scope: &str| Pattern::new("**").instance(scope);
        assert_eq!(instance("layers.0/attn/dot").as_deref(), Some("layers/0"));
        assert_eq!(instance("groups.0.1/conv0/convolution").as_deref(), Some("groups/0/1"));
        assert_eq!(instance("head/dot").as_deref(), Some("head"));
    }

    #[test]
    fn scopes_lose_what_tracing_put_around_them() {
        let scope = "jit(step)/transpose(jvp(layers.0))/attn/softmax/exp";
        assert_eq!(Pattern::new("**/softmax").scope(scope).as_deref(), Some("layers/0/attn/softmax"));
        assert_eq!(Pattern::new("layers.*.attn.**").scope(scope).as_deref(), Some("layers/0/attn/softmax/exp"));
        assert_eq!(Pattern::new("layers.*").scope(scope).as_deref(), Some("layers/0"));
        assert_eq!(Pattern::new("mlp").scope(scope), None);
    }
}
