//! Writing data: to standard output, or to a file that appears whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use meshwright::codes::Code;
use tempfile::NamedTempFile;

use crate::error::{Error, reason};

/// Whether a file that is already there may be replaced.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Overwrite {
    /// Replace the output file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// Writes to standard output.
pub(crate) fn print(data: &[u8]) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(data).and_then(|()| stdout.flush()).map_err(|error| Error::stdout(&error))
}

/// Prints the one object of `--json`.
pub(crate) fn print_json(object: &serde_json::Value) -> Result<(), Error> {
    print(format!("{object:#}\n").as_bytes())
}

/// Refuses a path that [`write()`] would refuse, before the work that makes the data.
pub(crate) fn check(path: &Path, overwrite: Overwrite) -> Result<(), Error> {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(Error::new(Code::Unwritable, format!("`{shown}` is a folder, not a file")))
        }
        Ok(metadata) if metadata.is_file() && !overwrite.force => {
            Err(Error::new(Code::FileExists, format!("`{shown}` exists"))
                .hint("give `--force` to replace it, or another name"))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = folder(path);
            if folder.is_dir() {
                return Ok(());
            }
            Err(Error::new(Code::Unwritable, format!("cannot write `{shown}`: no folder `{}`", folder.display()))
                .hint("make it first"))
        }
        Err(error) => Err(unwritable(path, &error)),
    }
}

/// Writes a file: whole under its name, or not at all.
pub(crate) fn write(path: &Path, data: &[u8], overwrite: Overwrite) -> Result<(), Error> {
    check(path, overwrite)?;
    // A device or a pipe cannot be replaced by a file, only written to.
    if path.exists() && !path.is_file() {
        let mut file = OpenOptions::new().write(true).open(path).map_err(|error| unwritable(path, &error))?;
        return file.write_all(data).map_err(|error| unwritable(path, &error));
    }
    let mut file = temporary(folder(path)).map_err(|error| unwritable(path, &error))?;
    file.write_all(data).map_err(|error| unwritable(path, &error))?;
    let end = if overwrite.force { file.persist(path) } else { file.persist_noclobber(path) };
    end.map(drop).map_err(|error| unwritable(path, &error.error))
}

fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".meshwright-");
    // Temporary files are private by default; ours becomes an ordinary file.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::new(Code::Unwritable, format!("cannot write `{}`: {}", path.display(), reason(error)))
}
