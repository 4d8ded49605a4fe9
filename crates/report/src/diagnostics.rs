//! Showing what the importer has to say: place, snippet, label and hint.

use std::sync::Arc;

pub use annotate_snippets::Renderer;
use annotate_snippets::{AnnotationKind, Level, Snippet};
use anstyle::{AnsiColor, Style};
use meshwright::import::{Diagnostic, Severity};

/// As many characters of a line are shown around the place.
const WINDOW: usize = 200;

/// As many of these stand before the place.
const BEFORE: usize = 60;

const ARROW: Style = AnsiColor::BrightBlue.on_default().bold();

/// One of the modules of a text.
#[derive(Clone, Debug)]
pub struct Module {
    pub text: Arc<str>,
    /// The number of its first line in the whole text, from 1.
    pub first_line: usize,
}

/// A diagnostic about a text of that name, without its hint.
pub fn render(renderer: &Renderer, name: &str, module: &Module, diagnostic: &Diagnostic) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let place = Place::new(module, diagnostic);
    let label = Some(diagnostic.label.as_str()).filter(|label| !label.is_empty());
    let annotation = AnnotationKind::Primary.span(place.start..place.end).label(label);
    let snippet = Snippet::source(place.snippet).line_start(place.line).annotation(annotation);
    let code = diagnostic.code.to_string();
    let text = renderer.render(&[level.primary_title(diagnostic.message.as_str()).id(code).element(snippet)]);
    // The renderer would count columns in the cut line, so the place is written here.
    let indent = place.line.to_string().len();
    let origin =
        format!("{:indent$}{} {name}:{}:{}", "", format_args!("{ARROW}-->{ARROW:#}"), place.line, place.column);
    match text.split_once('\n') {
        Some((title, rest)) => format!("{title}\n{origin}\n{rest}"),
        None => format!("{text}\n{origin}"),
    }
}

/// The line a diagnostic is about, cut to what a terminal can show. A line may have millions of
/// characters (a constant in hex), and rendering is not made for that.
#[derive(Debug)]
struct Place {
    line: usize,
    column: usize,
    snippet: String,
    /// Where the span is in `snippet`.
    start: usize,
    end: usize,
}

impl Place {
    fn new(module: &Module, diagnostic: &Diagnostic) -> Place {
        let text = &*module.text;
        let start = floor(text, diagnostic.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let end = floor(text, diagnostic.span.end).clamp(start, line_end);
        let newlines = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();

        let before = &text[line_start..start];
        let cut_start = before.char_indices().rev().nth(BEFORE - 1).map_or(line_start, |(index, _)| line_start + index);
        let cut_end = text[cut_start..line_end].char_indices().nth(WINDOW).map_or(line_end, |(i, _)| cut_start + i);
        let prefix = if cut_start > line_start { "…" } else { "" };
        let suffix = if cut_end < line_end { "…" } else { "" };
        let shift = |offset: usize| offset.min(cut_end) - cut_start + prefix.len();
        Place {
            line: module.first_line + newlines,
            column: before.chars().count() + 1,
            snippet: format!("{prefix}{}{suffix}", &text[cut_start..cut_end]),
            start: shift(start),
            end: shift(end),
        }
    }
}

/// The nearest character boundary at or before `offset`.
fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use meshwright::codes::Code;

    use super::*;

    #[track_caller]
    fn check(text: &str, span: Range<usize>, expected: &str) {
        let module = Module { text: text.into(), first_line: 1 };
        let diagnostic = Diagnostic {
            code: Code::Syntax,
            severity: Severity::Error,
            span,
            message: "wrong".to_owned(),
            label: "here".to_owned(),
            hint: None,
        };
        let text = render(&Renderer::plain(), "model.mlir", &module, &diagnostic);
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), expected);
    }

    #[test]
    fn a_span_points_into_its_line() {
        check(
            "one\ntwo three\n",
            8..13,
            "error[MW021]: wrong\n --> model.mlir:2:5\n  |\n2 | two three\n  |     ^^^^^ here",
        );
    }

    #[test]
    fn a_span_at_or_beyond_the_end_points_behind_the_last_character() {
        let expected = "error[MW021]: wrong\n --> model.mlir:1:4\n  |\n1 | one\n  |    ^ here";
        check("one", 3..3, expected);
        check("one", 9..12, expected);
    }

    #[test]
    fn a_span_inside_a_character_or_over_lines_is_cut() {
        check("aé\nb", 2..4, "error[MW021]: wrong\n --> model.mlir:1:2\n  |\n1 | aé\n  |  ^ here");
    }

    #[test]
    fn a_line_of_millions_of_characters_is_cut_around_the_span() {
        let text = format!("{} wrong {}", "a".repeat(3_000_000), "b".repeat(3_000_000));
        let module = Module { text: text.into(), first_line: 1 };
        let span = 3_000_001..3_000_006;
        let diagnostic = Diagnostic {
            code: Code::Syntax,
            severity: Severity::Error,
            span,
            message: String::new(),
            label: String::new(),
            hint: None,
        };
        let place = Place::new(&module, &diagnostic);
        assert_eq!((place.line, place.column), (1, 3_000_002));
        assert_eq!(&place.snippet[place.start..place.end], "wrong");
        assert_eq!(place.snippet.chars().count(), WINDOW + 2);
    }
}
