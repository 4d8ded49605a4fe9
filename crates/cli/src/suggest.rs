//! The name that was probably meant.

/// The candidate nearest to `name`, if one is near enough to be a slip of the fingers.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).clamp(1, 5);
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_finds_its_name_and_a_different_name_finds_none() {
        let names = ["gpt.mlir", "gpt.mlir.gz", "llama.mlir"];
        assert_eq!(nearest("gtp.mlir", names), Some("gpt.mlir"));
        assert_eq!(nearest("lama.mlir", names), Some("llama.mlir"));
        assert_eq!(nearest("unet.txt", names), None);
    }
}
