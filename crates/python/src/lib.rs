//! The compiler as a Python module, `meshwright._core`: thin functions, with Python's lock given up while they work.
//!
//! What people call is `python/meshwright`, which knows of JAX; this module knows of texts.

mod error;
mod pipeline;
mod plan;
mod program;
mod work;

use std::ffi::OsString;

use meshwright::cluster::find_reported;
use pyo3::prelude::*;

/// The compiler behind the package `meshwright`.
#[pymodule]
mod _core {
    use pyo3::prelude::*;
    use pyo3::types::PyModule;

    #[pymodule_export]
    use crate::error::{DoesNotFit, Error};
    #[pymodule_export]
    use crate::pipeline::{Pipeline, stage_count};
    #[pymodule_export]
    use crate::plan::Plan;
    #[pymodule_export]
    use crate::program::{Program, cluster_devices};
    #[pymodule_export]
    use crate::{aten_ops, device_name, run_command};

    #[pymodule_init]
    fn add_version(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// The name in the catalog of a device that an engine reports as `NVIDIA A100-SXM4-80GB` or `TPU v4`, if it is there.
#[pyfunction]
fn device_name(reported: &str) -> Option<String> {
    find_reported(reported).map(|system| system.device.name.to_string())
}

/// The ATen ops that programs have an own form of.
#[pyfunction]
fn aten_ops() -> Vec<&'static str> {
    meshwright::import::aten_ops().collect()
}

/// Runs the command with a command line, whose first word is the name of the program, and gives its exit code.
#[pyfunction]
fn run_command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| meshwright_cli::run(words))
}
