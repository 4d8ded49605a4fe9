//! Clusters as the user names them: `4x8xh100`, or a TOML file.

use std::ffi::OsStr;
use std::path::Path;

use meshwright::cluster::{self, Cluster, ClusterError, SYSTEMS};
use meshwright::codes::Code;
use meshwright::import::{Diagnostic, Severity};

use crate::diagnostics;
use crate::error::Error;
use crate::input::{self, Wanted, is_stdin};
use crate::model::Module;
use crate::suggest::nearest;

/// A cluster by its name, or from a file: what ends in `.toml`, is there or is `-`.
pub(crate) fn load(path: &Path) -> Result<Cluster, Error> {
    let is_file = is_stdin(path) || path.extension() == Some(OsStr::new("toml")) || path.is_file();
    if is_file { read(path) } else { named(&path.to_string_lossy()) }
}

fn named(name: &str) -> Result<Cluster, Error> {
    cluster::parse(name).map_err(|error| {
        let ClusterError { span, message, hint } = error;
        let meant = nearest(&name[span], SYSTEMS.iter().map(|system| &*system.device.name));
        let meant =
            meant.filter(|_| message.starts_with("there is no device")).map(|name| format!("did you mean `{name}`?"));
        Error::new(Code::Cluster, message).maybe_hint(meant.or(hint))
    })
}

fn read(path: &Path) -> Result<Cluster, Error> {
    let name = if is_stdin(path) { "<stdin>".to_owned() } else { path.display().to_string() };
    let bytes = input::read(path, Wanted { kind: "cluster file", names: &[] })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::new(Code::Unreadable, format!("`{name}` is not valid UTF-8")).hint("save the file as UTF-8")
    })?;
    cluster::parse_file(&text).map_err(|error| {
        let ClusterError { span, message, hint } = error;
        let text = Module { text: text.into(), first_line: 1 };
        let diagnostic =
            Diagnostic { code: Code::Cluster, severity: Severity::Error, span, message, label: String::new(), hint };
        diagnostics::tell_all(&name, &[(&text, &diagnostic)]);
        Error::AlreadyTold
    })
}
