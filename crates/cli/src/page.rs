//! `--html`: everything there is to tell as a page for a browser.

use std::path::PathBuf;

use clap::Args;
use meshwright::codes::Code;
use meshwright_report::page::Document;

use crate::error::{Error, tell};
use crate::output::{self, Overwrite};

/// Columns of the text that a page has for those who see nothing else.
const WIDTH: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct PageArguments {
    /// Write a page that shows all of it: one file, which any browser opens without a network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl PageArguments {
    /// Refuses a path that cannot be written, before the work that makes the page.
    pub(crate) fn check(&self, overwrite: Overwrite) -> Result<(), Error> {
        self.html.as_ref().map_or(Ok(()), |path| output::check(path, overwrite))
    }

    /// Writes the page where that is asked for. `text` is what is printed in so many columns.
    pub(crate) fn write<D: std::borrow::Borrow<Document>>(
        &self,
        overwrite: Overwrite,
        document: impl FnOnce() -> D,
        text: impl FnOnce(usize) -> String,
    ) -> Result<(), Error> {
        let Some(path) = &self.html else { return Ok(()) };
        let page = document().borrow().to_html(&text(WIDTH)).map_err(Error::of(Code::Unwritable))?;
        output::write(path, page.as_bytes(), overwrite)?;
        tell(format_args!("wrote `{}`", path.display()));
        Ok(())
    }
}
