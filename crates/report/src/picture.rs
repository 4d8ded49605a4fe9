//! A tensor and how a mesh cuts it, as boxes with the numbers of the devices that have each part.

use std::collections::BTreeMap;

use meshwright::shard::{Mesh, Sharding};
use unicode_width::UnicodeWidthStr;

use crate::table::{count, counted};

/// Parts along a dimension that are drawn, and panels; of more, the first and the last are.
const MOST: usize = 8;
const MOST_PANELS: usize = 4;

/// Draws a value of a shape, which may not be known. Dimensions that are cut lie along lines and columns; further ones are
/// panels one below the other. A part of a sum has a `Σ`.
pub fn picture(mesh: &Mesh, shape: Option<&[usize]>, lies: &Sharding, width: usize) -> String {
    let parts: Vec<usize> = lies.dims.iter().map(|pieces| mesh.product(pieces)).collect();
    let (rows, columns, panels) = axes(&parts);
    let mut drawing = Drawing { mesh, lies, holders: BTreeMap::new(), rows, columns, parts: &parts };
    drawing.fill();
    let mut text = drawing.caption(shape);
    let combinations = combinations(&panels, &parts);
    for (number, panel) in combinations.iter().enumerate() {
        if combinations.len() > MOST_PANELS && (MOST_PANELS - 1..combinations.len() - 1).contains(&number) {
            if number == MOST_PANELS - 1 {
                text += &format!("  … {} more panels\n", count(combinations.len() - MOST_PANELS));
            }
            continue;
        }
        text += &drawing.panel(&panels, panel, width);
    }
    text
}

/// The dimensions along lines and columns, and those that become panels: the last two that are cut are drawn.
fn axes(parts: &[usize]) -> (Option<usize>, Option<usize>, Vec<usize>) {
    let cut: Vec<usize> = (0..parts.len()).filter(|&dim| parts[dim] > 1).collect();
    match cut[..] {
        [] => (parts.len().checked_sub(2), parts.len().checked_sub(1), Vec::new()),
        // One that is last lies along columns, any other along lines.
        [dim] if dim + 1 == parts.len() => (dim.checked_sub(1), Some(dim), Vec::new()),
        [dim] => (Some(dim), Some(parts.len() - 1), Vec::new()),
        [ref panels @ .., rows, columns] => (Some(rows), Some(columns), panels.to_vec()),
    }
}

/// All parts along some dimensions, the last fastest.
fn combinations(dims: &[usize], parts: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &dim in dims {
        let with = |before: &Vec<usize>| {
            let before = before.clone();
            (0..parts[dim])
                .map(move |part| before.iter().copied().chain([part]).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

struct Drawing<'d> {
    mesh: &'d Mesh,
    lies: &'d Sharding,
    /// For every part, the devices that have it, or a part of the sum that it is.
    holders: BTreeMap<Vec<usize>, Vec<usize>>,
    rows: Option<usize>,
    columns: Option<usize>,
    parts: &'d [usize],
}

impl Drawing<'_> {
    fn fill(&mut self) {
        for device in 0..self.mesh.devices() {
            let position = |pieces: &meshwright::shard::Pieces| {
                // Slices in time are all on the device that runs them.
                let spatial: meshwright::shard::Pieces =
                    pieces.iter().copied().filter(|&piece| !self.mesh.is_temporal(piece)).collect();
                self.mesh.position(device, &spatial)
            };
            let part: Vec<usize> = self.lies.dims.iter().map(position).collect();
            self.holders.entry(part).or_default().push(device);
        }
    }

    fn caption(&self, shape: Option<&[usize]>) -> String {
        let cut = |(dim, &parts): (usize, &usize)| {
            let of =
                shape.and_then(|shape| shape.get(dim)).map(|size| format!(" of {}", count(*size))).unwrap_or_default();
            let by = self.mesh.describe(&self.lies.dims[dim]);
            (parts > 1).then(|| format!("dimension {dim}{of} into {} by `{by}`", counted(parts, "part")))
        };
        let cuts: Vec<String> = self.parts.iter().enumerate().filter_map(cut).collect();
        let whole =
            if cuts.is_empty() { "whole on every device".to_owned() } else { format!("cut: {}", cuts.join(", ")) };
        let partial = match &self.lies.partial[..] {
            [] => String::new(),
            pieces => {
                let terms = self.mesh.product(pieces);
                format!(
                    "; Σ: {} over `{}` of {}",
                    self.lies.reduction.name(),
                    self.mesh.describe(pieces),
                    counted(terms, "term")
                )
            }
        };
        format!("  {whole}{partial}\n")
    }

    fn panel(&self, dims: &[usize], panel: &[usize], width: usize) -> String {
        let title: Vec<String> =
            dims.iter().zip(panel).map(|(dim, part)| format!("part {part} of dimension {dim}")).collect();
        let title = if title.is_empty() { String::new() } else { format!("  {}\n", title.join(", ")) };
        let along = |dim: Option<usize>| shown(dim.map_or(1, |dim| self.parts[dim]));
        let (rows, columns) = (along(self.rows), along(self.columns));
        let cell = |row: Option<usize>, column: Option<usize>| match (row, column) {
            (Some(row), Some(column)) => self.cell(dims, panel, row, column),
            _ => "…".to_owned(),
        };
        let cells: Vec<Vec<String>> =
            rows.iter().map(|&row| columns.iter().map(|&column| cell(row, column)).collect()).collect();
        let widest = cells.iter().flatten().map(|cell| cell.width()).max().unwrap_or(1);
        let room = width.saturating_sub(4) / columns.len().max(1);
        let wide = widest.max(5).min(room.saturating_sub(3).max(3));
        title + &boxes(&cells, wide)
    }

    fn cell(&self, dims: &[usize], panel: &[usize], row: usize, column: usize) -> String {
        let mut part = vec![0; self.parts.len()];
        dims.iter().zip(panel).for_each(|(&dim, &number)| part[dim] = number);
        [(self.rows, row), (self.columns, column)].into_iter().for_each(|(dim, number)| {
            if let Some(dim) = dim {
                part[dim] = number;
            }
        });
        let devices = self.holders.get(&part).map(|devices| listed(devices)).unwrap_or_default();
        if self.lies.partial.is_empty() { devices } else { format!("Σ {devices}") }
    }
}

/// The numbers of what is drawn; none stands for what is left out.
fn shown(parts: usize) -> Vec<Option<usize>> {
    if parts <= MOST {
        return (0..parts).map(Some).collect();
    }
    (0..MOST - 2).map(Some).chain([None, Some(parts - 1)]).collect()
}

/// Devices, such as `0-7` or `0,8,…,56`.
pub fn listed(devices: &[usize]) -> String {
    let [first, second, .., last] = *devices else {
        return devices.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    };
    let step = second - first;
    let is_even = devices.windows(2).all(|pair| pair[1] - pair[0] == step);
    match (is_even, step) {
        (true, 1) => format!("{first}-{last}"),
        (true, _) if devices.len() > 3 => format!("{first},{second},…,{last}"),
        _ if devices.len() <= 4 => devices.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
        _ => format!("{first},{second},…,{last}"),
    }
}

fn boxes(cells: &[Vec<String>], wide: usize) -> String {
    let columns = cells.first().map_or(0, Vec::len);
    let line = |left: &str, middle: &str, right: &str| {
        format!("  {left}{}{right}\n", vec!["─".repeat(wide + 2); columns].join(middle))
    };
    let mut text = line("┌", "┬", "┐");
    for (number, row) in cells.iter().enumerate() {
        if number > 0 {
            text += &line("├", "┼", "┤");
        }
        let shown: Vec<String> = row.iter().map(|cell| centered(cell, wide)).collect();
        text += &format!("  │{}│\n", shown.join("│"));
    }
    text + &line("└", "┴", "┘")
}

fn centered(text: &str, wide: usize) -> String {
    let mut shown = text.to_owned();
    while shown.width() > wide {
        shown.pop();
    }
    let free = wide - shown.width();
    format!(" {}{shown}{} ", " ".repeat(free / 2), " ".repeat(free - free / 2))
}

/// Reads how a value lies as it is told, also where it is in parts of a sum: `[{a}, {}] sum over {b}`.
pub fn parse_sharding(text: &str, mesh: &Mesh) -> Result<Sharding, String> {
    let Some((lies, rest)) = text.split_once("] ") else { return Sharding::parse(text, mesh) };
    let (word, over) = rest.split_once(" over ").ok_or_else(|| format!("`{rest}` is no reduction"))?;
    let mut sharding = Sharding::parse(&format!("{lies}]"), mesh)?;
    use meshwright::shard::Reduction::{And, Max, Min, Or, Product, Sum};
    let reduction = [And, Max, Min, Or, Product, Sum].into_iter().find(|reduction| reduction.name() == word);
    sharding.reduction = reduction.ok_or_else(|| format!("`{word}` is no reduction"))?;
    sharding.partial = mesh.parse_pieces(over.trim_start_matches('{').trim_end_matches('}'))?;
    Ok(sharding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mesh: &str, shape: &[usize], lies: &str, expected: &str) {
        let mesh = Mesh::parse(mesh).expect("a mesh");
        let lies = parse_sharding(lies, &mesh).expect("a sharding");
        assert_eq!(picture(&mesh, Some(shape), &lies, 60), expected.trim_start_matches('\n'));
    }

    #[test]
    fn two_dimensions_are_lines_and_columns() {
        check(
            "data=2,model=2",
            &[8, 16],
            "[{data}, {model}]",
            "
  cut: dimension 0 of 8 into 2 parts by `data`, dimension 1 of 16 into 2 parts by `model`
  ┌───────┬───────┐
  │   0   │   1   │
  ├───────┼───────┤
  │   2   │   3   │
  └───────┴───────┘
",
        );
    }

    #[test]
    fn what_is_whole_is_one_box() {
        check(
            "data=4",
            &[8, 16],
            "[{}, {}]",
            "
  whole on every device
  ┌───────┐
  │  0-3  │
  └───────┘
",
        );
    }

    #[test]
    fn a_part_of_a_sum_is_marked() {
        check(
            "data=2,model=2",
            &[8, 16],
            "[{}, {model}] sum over {data}",
            "
  cut: dimension 1 of 16 into 2 parts by `model`; Σ: sum over `data` of 2 terms
  ┌───────┬───────┐
  │ Σ 0,2 │ Σ 1,3 │
  └───────┴───────┘
",
        );
    }

    #[test]
    fn dimensions_beyond_two_are_panels() {
        check(
            "a=2,b=2,c=2",
            &[4, 4, 4],
            "[{a}, {b}, {c}]",
            "
  cut: dimension 0 of 4 into 2 parts by `a`, dimension 1 of 4 into 2 parts by `b`, dimension 2 of 4 into 2 parts by `c`
  part 0 of dimension 0
  ┌───────┬───────┐
  │   0   │   1   │
  ├───────┼───────┤
  │   2   │   3   │
  └───────┴───────┘
  part 1 of dimension 0
  ┌───────┬───────┐
  │   4   │   5   │
  ├───────┼───────┤
  │   6   │   7   │
  └───────┴───────┘
",
        );
    }

    #[test]
    fn many_parts_are_told_by_the_first_and_the_last() {
        let mesh = Mesh::parse("data=64").expect("a mesh");
        let lies = parse_sharding("[{data}]", &mesh).expect("a sharding");
        let drawn = picture(&mesh, None, &lies, 80);
        assert!(drawn.contains("│   5   │   …   │  63   │"), "{drawn}");
    }
}
