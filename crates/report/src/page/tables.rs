//! Texts and modules that are told once and known by number from then on.

use std::collections::BTreeMap;

use meshwright::profile::module_path;
use meshwright::program::{Id, Program};
use serde::{Serialize, Serializer};

/// What all parts of a document share.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub strings: Strings,
    pub modules: Modules,
}

/// Texts by number. The first is empty.
#[derive(Clone, Debug)]
pub struct Strings {
    list: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl Default for Strings {
    fn default() -> Strings {
        Strings { list: vec![String::new()], numbers: BTreeMap::from([(String::new(), 0)]) }
    }
}

impl Strings {
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

impl Serialize for Strings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(serializer)
    }
}

/// The tree of modules. The first is the whole step.
#[derive(Clone, Debug, Serialize)]
pub struct Modules {
    name: Vec<u32>,
    parent: Vec<u32>,
    /// Where a profile tells them, else none.
    pub parameters: Vec<usize>,
    pub kept_bytes: Vec<usize>,
    #[serde(skip)]
    numbers: BTreeMap<(u32, u32), u32>,
}

impl Default for Modules {
    fn default() -> Modules {
        let (parameters, kept_bytes) = (Vec::new(), Vec::new());
        Modules { name: vec![0], parent: vec![0], parameters, kept_bytes, numbers: BTreeMap::new() }
    }
}

impl Modules {
    pub fn len(&self) -> usize {
        self.name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.name.is_empty()
    }

    /// The module of that name inside of another.
    pub fn inside(&mut self, strings: &mut Strings, parent: u32, name: &str) -> u32 {
        let name = strings.number(name);
        if let Some(&number) = self.numbers.get(&(parent, name)) {
            return number;
        }
        let number = self.name.len() as u32;
        self.name.push(name);
        self.parent.push(parent);
        self.numbers.insert((parent, name), number);
        number
    }
}

impl Tables {
    /// For every location of a program, its module.
    pub fn places(&mut self, program: &Program) -> Vec<u32> {
        let mut places = vec![0; program.locations.len()];
        for (id, location) in program.locations.iter() {
            let path = module_path(location);
            places[id.index()] =
                path.iter().fold(0, |parent, name| self.modules.inside(&mut self.strings, parent, name));
        }
        places
    }
}
