//! What reads our output.

/// Columns of the terminal that reads our data, or 80 where a file or a program does.
pub(crate) fn terminal_width() -> usize {
    terminal_size::terminal_size_of(std::io::stdout()).map_or(80, |(width, _)| usize::from(width.0))
}
