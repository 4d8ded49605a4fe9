//! Reading files and standard input, plain or compressed.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use meshwright::codes::Code;

use crate::error::{Error, reason};
use crate::suggest::nearest;

/// What is read, for messages about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'w> {
    /// What a path may name, such as `file or preset`.
    pub(crate) kind: &'w str,
    /// Names that are known besides those of files.
    pub(crate) names: &'w [&'w str],
}

/// Whether a path stands for standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// The bytes of a file or of standard input (`-`), unpacked if they are compressed. Compression is
/// recognized by what is in the file, not by its name.
pub(crate) fn read(path: &Path, wanted: Wanted<'_>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    if is_stdin(path) {
        io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Error::new(Code::Unreadable, format!("cannot read standard input: {}", reason(&error))))?;
    } else {
        bytes = fs::read(path).map_err(|error| unreadable(path, wanted, &error))?;
    }
    if bytes.starts_with(&[0x1f, 0x8b]) { unpacked(path, &bytes) } else { Ok(bytes) }
}

fn unpacked(path: &Path, bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(bytes).read_to_end(&mut unpacked).map_err(|error| {
        let what = if error.kind() == io::ErrorKind::UnexpectedEof { "is cut short" } else { "is damaged" };
        Error::new(Code::Unreadable, format!("the gzip data of `{}` {what}", path.display()))
            .hint("make or download the file again")
    })?;
    Ok(unpacked)
}

fn unreadable(path: &Path, wanted: Wanted<'_>, error: &io::Error) -> Error {
    let shown = path.display();
    if error.kind() == io::ErrorKind::NotFound {
        return Error::new(Code::NoSuchFile, format!("no such {}: `{shown}`", wanted.kind))
            .maybe_hint(nearest_name(path, wanted.names));
    }
    if path.is_dir() {
        return Error::new(Code::Unreadable, format!("`{shown}` is a folder, not a file")).hint("name a file in it");
    }
    Error::new(Code::Unreadable, format!("cannot read `{shown}`: {}", reason(error)))
}

/// Points at the known name or at the file of that folder whose name is nearest.
fn nearest_name(path: &Path, names: &[&str]) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    if let Some(known) = nearest(path.to_str()?, names.iter().copied()) {
        return Some(format!("did you mean `{known}`?"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let files: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let nearest = nearest(name, files.iter().map(String::as_str))?;
    Some(format!("did you mean `{}`?", path.with_file_name(nearest).display()))
}
