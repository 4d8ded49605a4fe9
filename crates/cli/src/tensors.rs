//! Tensors in and out, in safetensors files.

use std::collections::BTreeSet;
use std::path::Path;

use meshwright::codes::Code;
use meshwright::interpret::Tensor;
use meshwright::program::{DType, Program, Type};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::error::Error;
use crate::input::{self, Wanted};
use crate::names::{names, numbered};
use crate::suggest::nearest;

/// An input for every argument, from a file.
pub(crate) fn read(path: &Path, program: &Program) -> Result<Vec<Tensor>, Error> {
    let shown = path.display();
    let data = input::read(path, Wanted { kind: "safetensors file", names: &[] })?;
    let file = SafeTensors::deserialize(&data)
        .map_err(|error| Error::new(Code::Tensors, format!("`{shown}` is not a safetensors file: {error}")))?;
    let names = names("argument", program.arguments.iter().map(|argument| argument.name.as_str()));
    let mut unread: BTreeSet<String> = file.names().into_iter().map(str::to_owned).collect();
    let mut tensors = Vec::new();
    for (index, (name, value)) in names.iter().zip(&program.body().arguments).enumerate() {
        let ty = program.ty(*value);
        if ty.dtype == DType::Token {
            tensors.push(Tensor::zeros(ty));
            continue;
        }
        let found = [name.clone(), numbered("argument", index)].into_iter().find(|name| unread.remove(name));
        let Some(found) = found else {
            return Err(Error::new(
                Code::Tensors,
                format!("`{shown}` has no tensor for argument `{name}` of type `{ty}`"),
            )
            .maybe_hint(nearest(name, unread.iter().map(String::as_str)).map(|near| format!("it has `{near}`"))));
        };
        let view = file
            .tensor(&found)
            .map_err(|error| Error::new(Code::Tensors, format!("cannot read `{found}` of `{shown}`: {error}")))?;
        tensors.push(tensor(&found, &view, ty)?);
    }
    // A file may hold the expected results beside the inputs.
    match unread.iter().find(|name| !name.starts_with("result.")) {
        Some(name) => Err(Error::new(
            Code::Tensors,
            format!("`{shown}` has a tensor `{name}`, but the model has no such argument"),
        )
        .maybe_hint(nearest(name, names.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`?")))),
        None => Ok(tensors),
    }
}

/// The bytes of a safetensors file with results.
pub(crate) fn serialize(tensors: &[Tensor]) -> Result<Vec<u8>, Error> {
    let mut views = Vec::new();
    let data: Vec<Vec<u8>> = tensors.iter().map(Tensor::to_bytes).collect();
    for (index, (tensor, data)) in tensors.iter().zip(&data).enumerate() {
        let name = numbered("result", index);
        let ty = &tensor.ty;
        if ty.dtype == DType::Token {
            continue;
        }
        let refused =
            |why: String| Error::new(Code::Tensors, format!("cannot store result `{name}` of type `{ty}`: {why}"));
        let dtype =
            file_dtype(ty.dtype).ok_or_else(|| refused("safetensors files have no such element type".to_owned()))?;
        let view = TensorView::new(dtype, ty.shape.to_vec(), data).map_err(|error| refused(error.to_string()))?;
        views.push((name, view));
    }
    safetensors::serialize(views, None)
        .map_err(|error| Error::new(Code::Tensors, format!("cannot store the results: {error}")))
}

fn tensor(name: &str, view: &TensorView<'_>, ty: &Type) -> Result<Tensor, Error> {
    let dtype = DType::all().find(|dtype| file_dtype(*dtype) == Some(view.dtype()));
    let found = match dtype {
        Some(dtype) => Type::new(dtype, view.shape()).to_string(),
        None => format!("{:?} of shape {:?}", view.dtype(), view.shape()),
    };
    if found != ty.to_string() {
        return Err(Error::new(Code::Tensors, format!("tensor `{name}` is `{found}`, but the argument is `{ty}`")));
    }
    Tensor::from_bytes(ty.clone(), view.data())
        .ok_or_else(|| Error::new(Code::Tensors, format!("tensor `{name}` does not hold the bytes of {ty}")))
}

/// The element type as safetensors files call it.
fn file_dtype(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
        DType::Bool => Dtype::BOOL,
        DType::I8 => Dtype::I8,
        DType::I16 => Dtype::I16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::U8 => Dtype::U8,
        DType::U16 => Dtype::U16,
        DType::U32 => Dtype::U32,
        DType::U64 => Dtype::U64,
        DType::F8E4M3FN => Dtype::F8_E4M3,
        DType::F8E5M2 => Dtype::F8_E5M2,
        DType::F8E8M0FNU => Dtype::F8_E8M0,
        DType::BF16 => Dtype::BF16,
        DType::F16 => Dtype::F16,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::Complex64 => Dtype::C64,
        DType::I2
        | DType::I4
        | DType::U2
        | DType::U4
        | DType::F4E2M1FN
        | DType::F6E2M3FN
        | DType::F6E3M2FN
        | DType::F8E3M4
        | DType::F8E4M3
        | DType::F8E4M3B11FNUZ
        | DType::F8E4M3FNUZ
        | DType::F8E5M2FNUZ
        | DType::Complex128
        | DType::Token => return None,
    })
}
