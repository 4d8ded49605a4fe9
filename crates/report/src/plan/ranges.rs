//! Many numbers, and many names, in few words.

/// Numbers in order, as `3,7-9`.
pub(super) fn fold(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// Numbers that [`fold`] wrote, each below `bound`: nobody can ask for more of them than there are.
pub(super) fn unfold(text: &str, bound: u32) -> Result<Vec<u32>, String> {
    let mut numbers = Vec::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("`{range}` is no number, nor a range"));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last >= bound || numbers.last().is_some_and(|&before| before >= first) {
            return Err(format!("`{range}` is out of order, or beyond {bound}"));
        }
        numbers.extend(first..=last);
    }
    Ok(numbers)
}

/// Names that differ in their last number told once: `layers.{0-31}.mlp.up`.
pub fn fold_names(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut groups: Vec<((String, String), Vec<u32>)> = Vec::new();
    for name in names {
        let (key, number) = split(&name);
        let group = match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group,
            None => {
                groups.push((key, Vec::new()));
                &mut groups.last_mut().expect("one was added").1
            }
        };
        group.extend(number);
    }
    let told = |((before, after), mut numbers): ((String, String), Vec<u32>)| {
        numbers.sort_unstable();
        numbers.dedup();
        match numbers[..] {
            [] => before + &after,
            [number] => format!("{before}{number}{after}"),
            _ => format!("{before}{{{}}}{after}", fold(numbers)),
        }
    };
    groups.into_iter().map(told).collect()
}

/// The names that [`fold_names`] told in one.
pub fn unfold_name(name: &str) -> Vec<String> {
    let parts = name.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let numbers = parts.and_then(|(_, (numbers, _))| unfold(numbers, MOST_NUMBER).ok());
    match (parts, numbers) {
        (Some((before, (_, after))), Some(numbers)) => {
            numbers.iter().map(|number| format!("{before}{number}{after}")).collect()
        }
        _ => vec![name.to_owned()],
    }
}

/// More layers than any model has.
const MOST_NUMBER: u32 = 1 << 20;

/// What is before and after the last part of a name that is a number, and the number.
fn split(name: &str) -> ((String, String), Option<u32>) {
    let mut end = name.len();
    while let Some(start) = name[..end].rfind(['.', '/']).map(|at| at + 1).or((end > 0).then_some(0)) {
        let part = &name[start..end];
        // A number that would not be written the same again is left as it is.
        if let Some(number) = part.parse::<u32>().ok().filter(|number| number.to_string() == part) {
            return ((name[..start].to_owned(), name[end..].to_owned()), Some(number));
        }
        if start == 0 {
            break;
        }
        end = start - 1;
    }
    ((name.to_owned(), String::new()), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for numbers in [vec![], vec![3], vec![0, 1, 2], vec![3, 7, 8, 9, 11]] {
            assert_eq!(unfold(&fold(numbers.clone()), 12), Ok(numbers));
        }
        for wrong in ["x", "3-1", "3,2", "12", "0-4000000000", "1-"] {
            assert!(unfold(wrong, 12).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_read_back() {
        let names = ["layers.0.mlp", "layers.1.mlp", "layers.3.mlp", "head", "groups.0.1", "groups.0.2", "2"];
        let folded = fold_names(names.map(str::to_owned));
        assert_eq!(folded, ["layers.{0-1,3}.mlp", "head", "groups.0.{1-2}", "2"]);
        let back: Vec<String> = folded.iter().flat_map(|name| unfold_name(name)).collect();
        assert_eq!(back, names);
        assert_eq!(unfold_name("a{b}"), ["a{b}"]);
    }
}
