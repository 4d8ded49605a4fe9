//! The reference of the command, written from its help texts.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use clap::CommandFactory;

use crate::Arguments;

/// `docs/reference/cli.md` says what `--help` says. `BLESS=1` writes it anew.
#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let expected = reference();
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &expected).expect("the reference can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "docs/reference/cli.md is out of date, run the tests with BLESS=1");
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
