//! The reference of the command, written from its help texts.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use clap::CommandFactory;
use meshwright::codes::PAGES;

use crate::Arguments;

/// `docs/reference/cli.md` says what `--help` says. `BLESS=1` writes it anew.
#[test]
fn the_reference_is_up_to_date() {
    check("cli.md", &reference());
}

/// `docs/reference/codes.md` has the pages of all codes.
#[test]
fn the_pages_of_codes_are_up_to_date() {
    let mut text =
        "# Codes\n\nEvery error and warning has a code; `meshwright explain MW060` prints its page. This page is \
                    made from the table of codes.\n"
            .to_owned();
    for page in PAGES {
        let _ = write!(text, "\n## {}: {}\n\n{}\n", page.code, page.title, page.text);
    }
    check("codes.md", &text);
}

#[track_caller]
fn check(name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, expected).expect("the reference can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "docs/reference/{name} is out of date, run the tests with BLESS=1");
}

fn reference() -> String {
    let mut command = Arguments::command().term_width(100);
    command.build();
    let mut text = "# The command\n\nThis page is made from the help texts of the command.\n".to_owned();
    section(&mut text, "meshwright", &mut command.clone());
    for subcommand in command.get_subcommands_mut() {
        if subcommand.get_name() != "help" {
            let name = format!("meshwright {}", subcommand.get_name());
            section(&mut text, &name, subcommand);
        }
    }
    text
}

fn section(text: &mut String, name: &str, command: &mut clap::Command) {
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(text, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
}
