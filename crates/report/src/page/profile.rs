//! The page of a profile.

use meshwright::profile::{Module, Profile};
use serde_json::Value;

use super::memory::of_steps;
use super::program::{Cuts, Groups, Shardings, Shown, program_part};
use super::simulate::finished;
use super::{Document, Tables, Verdict};

/// `json` is what `--json` prints, `text` what the profile comes to in a line.
pub fn profile_document(title: String, text: String, profile: &Profile<'_>, json: Value) -> Document {
    let mut document = Document::new("profile", title, Verdict { fits: None, text }, json);
    let mut tables = Tables::default();
    let mesh = meshwright::shard::Mesh::default();
    let shown = Shown {
        program: &profile.program,
        anatomy: &profile.anatomy,
        mesh: &mesh,
        cuts: Cuts::Whole,
        groups: Groups::default(),
    };
    document.program = Some(program_part(&mut tables, &mut Shardings::default(), shown));
    add_module(&mut tables, 0, &profile.modules);
    let known = tables.modules.len();
    tables.modules.parameters.resize(known, 0);
    tables.modules.kept_bytes.resize(known, 0);
    document.memory = vec![of_steps(&profile.memory.timeline())];
    finished(document, tables)
}

fn add_module(tables: &mut Tables, number: u32, module: &Module) {
    let index = number as usize;
    if tables.modules.parameters.len() <= index {
        let known = tables.modules.len();
        tables.modules.parameters.resize(known, 0);
        tables.modules.kept_bytes.resize(known, 0);
    }
    tables.modules.parameters[index] = module.parameters;
    tables.modules.kept_bytes[index] = module.saved_activation_bytes;
    for inner in &module.modules {
        let number = tables.modules.inside(&mut tables.strings, number, &inner.name);
        add_module(tables, number, inner);
    }
}
