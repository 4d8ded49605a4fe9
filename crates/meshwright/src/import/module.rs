//! Reading modules and functions, in generic and in pretty form.

use std::ops::Range;

use super::attribute::{Attribute, Attributes, parse_attribute, parse_fields};
use super::cursor::{Parse, error, unescape};
use super::location::{Locations, dotted};
use super::parse::{Binding, Function, Parser, has_value, join};
use super::types::{TypeList, parse_function_type, parse_type};
use crate::codes::Code;
use crate::program::{Argument, LocationId, RegionId, ResultInfo, Type};

impl<'a> Parser<'a> {
    /// The items of a module up to its `}` (or, outside of any module, up to the end of the text).
    pub(super) fn parse_module_items(&mut self, inside: bool) {
        loop {
            if self.cursor.at_end() || inside && self.cursor.byte() == b'}' {
                return;
            }
            let start = self.cursor.position;
            let (mark, nesting) = (self.scope.len(), self.nesting);
            if let Err(problem) = self.parse_module_item() {
                self.report(*problem);
                self.recover(start);
                self.leave(mark, nesting);
            }
            if self.has_too_many_errors() {
                self.cursor.position = self.cursor.text.len();
                return;
            }
        }
    }

    fn parse_module_item(&mut self) -> Parse<()> {
        match self.cursor.peek() {
            b'#' | b'!' => self.skip_alias(),
            b'{' if self.cursor.text[self.cursor.position..].starts_with("{-#") => self.skip_metadata(),
            b'"' => {
                let start = self.cursor.position;
                match self.cursor.string()? {
                    "builtin.module" => self.parse_generic_module(),
                    "func.func" => self.parse_generic_function(start),
                    _ => self.skip_item(start),
                }
            }
            _ => {
                let start = self.cursor.position;
                match self.cursor.expect_word("a module or a function")? {
                    "module" | "builtin.module" => self.parse_pretty_module(),
                    "func.func" => self.parse_pretty_function(start),
                    word if word.contains('.') => self.skip_item(start),
                    _ => {
                        self.cursor.position = start;
                        Err(self.cursor.unexpected("a module or a function"))
                    }
                }
            }
        }
    }

    /// Aliases were found beforehand.
    fn skip_alias(&mut self) -> Parse<()> {
        let is_attribute = self.cursor.byte() == b'#';
        self.cursor.position += 1;
        self.cursor.suffix();
        self.cursor.expect("=")?;
        if !has_value(&mut self.cursor) {
            return Err(self.cursor.unexpected("the value of the alias on the same line"));
        }
        // The value may go on over several lines. What is wrong with it is reported where it is used.
        let mut value = self.cursor.clone();
        if is_attribute && parse_attribute(&mut value, &self.context, 0).is_ok() {
            self.cursor = value;
            return Ok(());
        }
        let rest = &self.cursor.text[self.cursor.position..];
        self.cursor.position += rest.find('\n').unwrap_or(rest.len());
        Ok(())
    }

    /// `{-# dialect_resources: ... #-}` at the end of a file.
    fn skip_metadata(&mut self) -> Parse<()> {
        let start = self.cursor.position;
        match self.cursor.text[start..].find("#-}") {
            Some(offset) => self.cursor.position = start + offset + 3,
            None => return Err(error(Code::Syntax, start..start + 3, "metadata without an end", "expected `#-}`")),
        }
        Ok(())
    }

    /// Other dialects' module items, such as `sdy.mesh`.
    fn skip_item(&mut self, start: usize) -> Parse<()> {
        self.cursor.position = start;
        self.recover(start);
        Ok(())
    }

    fn parse_generic_module(&mut self) -> Parse<()> {
        self.cursor.expect("(")?;
        self.cursor.expect(")")?;
        let mut attributes = Attributes::new();
        if self.cursor.eat("<{") {
            parse_fields(&mut self.cursor, &self.context, "}>", 0, &mut attributes)?;
        }
        self.cursor.expect("(")?;
        self.enter()?;
        self.parse_module_items(true);
        self.nesting -= 1;
        self.cursor.expect("}")?;
        self.cursor.expect(")")?;
        if self.cursor.eat("{") {
            parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
        }
        self.take_module_attributes(&attributes);
        self.cursor.expect(":")?;
        parse_function_type(&mut self.cursor)?;
        self.locations.parse_optional(&mut self.cursor, &self.context)?;
        Ok(())
    }

    fn parse_pretty_module(&mut self) -> Parse<()> {
        if self.cursor.peek() == b'@' {
            self.program.name = unescape(self.cursor.symbol()?);
        }
        let mut attributes = Attributes::new();
        if self.cursor.eat("attributes") {
            self.cursor.expect("{")?;
            parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
        }
        self.take_module_attributes(&attributes);
        self.enter()?;
        self.parse_module_items(true);
        self.nesting -= 1;
        self.cursor.expect("}")?;
        self.locations.parse_optional(&mut self.cursor, &self.context)?;
        Ok(())
    }

    fn take_module_attributes(&mut self, attributes: &Attributes<'a>) {
        for attribute in attributes {
            match (attribute.name, &attribute.value) {
                ("sym_name", Attribute::String(name)) => self.program.name = unescape(name),
                ("mhlo.num_partitions", &Attribute::Integer(count)) => self.program.partitions = count.max(1) as usize,
                ("mhlo.num_replicas", &Attribute::Integer(count)) => self.program.replicas = count.max(1) as usize,
                _ => {}
            }
        }
    }

    /// The rest of `"func.func"() <{...}> ({...}) : () -> ()`.
    fn parse_generic_function(&mut self, start: usize) -> Parse<()> {
        self.cursor.expect("(")?;
        self.cursor.expect(")")?;
        let mut attributes = Attributes::new();
        if self.cursor.eat("<{") {
            parse_fields(&mut self.cursor, &self.context, "}>", 0, &mut attributes)?;
        }
        self.cursor.expect("(")?;
        let region = self.program.add_region();
        let span = start..self.cursor.position;
        let block = self.parse_region(region)?;
        self.cursor.expect(")")?;
        if self.cursor.eat("{") {
            parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
        }
        self.cursor.expect(":")?;
        parse_function_type(&mut self.cursor)?;
        self.locations.parse_optional(&mut self.cursor, &self.context)?;

        let string = |name: &str| {
            attributes.iter().find_map(|attribute| match attribute.value {
                Attribute::String(string) if attribute.name == name => Some(string),
                _ => None,
            })
        };
        let fields_of = |name: &str, index: usize| {
            let list = attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value);
            match list {
                Some(Attribute::List(list)) => match list.get(index) {
                    Some(Attribute::Fields(fields)) => fields.as_slice(),
                    _ => &[],
                },
                _ => &[],
            }
        };
        let arguments = block
            .locations
            .iter()
            .enumerate()
            .map(|(index, &location)| argument_from(fields_of("arg_attrs", index), &self.locations, location))
            .collect::<Parse<_>>()?;
        let results = (0..self.program.regions[region].results.len())
            .map(|index| result_from(fields_of("res_attrs", index)))
            .collect();
        let is_public = string("sym_visibility") != Some("private");
        let Some(name) = string("sym_name") else {
            return Err(error(
                Code::Attribute,
                span,
                "`func.func` needs the attribute `sym_name`",
                "a function without a name",
            ));
        };
        // A declaration has an empty region.
        let body = &self.program.regions[region];
        let has_body = block.has_return || !body.ops.is_empty() || self.broken_regions.contains(&region);
        let declared = attributes.iter().find(|attribute| attribute.name == "function_type");
        if let (true, Some(Attribute::FunctionType(declared))) = (has_body, declared.map(|attribute| &attribute.value))
        {
            let (taken, returned) = (&declared.0, &declared.1);
            let arguments: TypeList = body.arguments.iter().map(|&value| self.program.ty(value).clone()).collect();
            if arguments != *taken {
                let label = format!("takes ({}), declares ({})", join(&arguments), join(taken));
                return Err(error(Code::Signature, span, "the function does not take what it declares", label));
            }
            self.check_function_results(region, block.has_return, returned, &span);
        }
        self.add_function(Function { name, span, is_public, has_body, region, arguments, results });
        Ok(())
    }

    /// The rest of `func.func public @main(%arg0: tensor<f32> {...} loc(...)) -> (...) {...}`.
    fn parse_pretty_function(&mut self, start: usize) -> Parse<()> {
        let is_public = !self.cursor.eat("private");
        self.cursor.eat("public");
        let name = self.cursor.symbol()?;
        let span = start..self.cursor.position;
        let region = self.program.add_region();
        let mark = self.scope.len();
        let arguments = self.parse_function_arguments(region)?;
        let mut results = Vec::new();
        let mut declared = TypeList::new();
        if self.cursor.eat("->") {
            self.parse_function_results(&mut declared, &mut results)?;
        }
        if self.cursor.eat("attributes") {
            self.cursor.expect("{")?;
            parse_fields(&mut self.cursor, &self.context, "}", 0, &mut Attributes::new())?;
        }
        let has_body = self.cursor.peek() == b'{';
        if has_body {
            let block = self.parse_region(region)?;
            self.check_function_results(region, block.has_return, &declared, &span);
        }
        self.forget(mark);
        self.locations.parse_optional(&mut self.cursor, &self.context)?;
        results.resize(self.program.regions[region].results.len(), ResultInfo::default());
        self.add_function(Function { name, span, is_public, has_body, region, arguments, results });
        Ok(())
    }

    fn add_function(&mut self, function: Function<'a>) {
        if !self.function_names.insert(function.name) {
            let message = format!("function `@{}` is defined twice", function.name);
            self.report(*error(Code::DefinedTwice, function.span, message, "defined again"));
            return;
        }
        self.functions.push(function);
    }

    fn parse_function_arguments(&mut self, region: RegionId) -> Parse<Vec<Argument>> {
        self.cursor.expect("(")?;
        let mut arguments = Vec::new();
        if self.cursor.eat(")") {
            return Ok(arguments);
        }
        // A declaration has types only.
        let is_named = self.cursor.peek() == b'%';
        loop {
            let name = if is_named { self.parse_value_name()? } else { "" };
            if is_named {
                self.cursor.expect(":")?;
            }
            let ty = parse_type(&mut self.cursor)?;
            let mut attributes = Attributes::new();
            if self.cursor.eat("{") {
                parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
            }
            let location = self.locations.parse_optional(&mut self.cursor, &self.context)?;
            let value = self.program.add_region_argument(region, ty);
            if is_named {
                self.define(name, Binding::Values { first: value, count: 1 })?;
            }
            arguments.push(argument_from(&attributes, &self.locations, location)?);
            if !self.cursor.eat(",") {
                self.cursor.expect(")")?;
                return Ok(arguments);
            }
        }
    }

    fn parse_function_results(&mut self, types: &mut TypeList, results: &mut Vec<ResultInfo>) -> Parse<()> {
        if !self.cursor.eat("(") {
            types.push(parse_type(&mut self.cursor)?);
            return Ok(());
        }
        if self.cursor.eat(")") {
            return Ok(());
        }
        loop {
            types.push(parse_type(&mut self.cursor)?);
            let mut attributes = Attributes::new();
            if self.cursor.eat("{") {
                parse_fields(&mut self.cursor, &self.context, "}", 0, &mut attributes)?;
            }
            results.push(result_from(&attributes));
            if !self.cursor.eat(",") {
                return self.cursor.expect(")");
            }
        }
    }

    fn check_function_results(&mut self, region: RegionId, has_return: bool, declared: &[Type], span: &Range<usize>) {
        if self.broken_regions.contains(&region) {
            return;
        }
        if !has_return {
            self.report(*error(
                Code::Signature,
                span.clone(),
                "the function has no `return`",
                "its last operation is missing",
            ));
            return;
        }
        let returned: TypeList =
            self.program.regions[region].results.iter().map(|&value| self.program.ty(value).clone()).collect();
        if returned.as_slice() != declared {
            let label = format!("returns ({}), declares ({})", join(&returned), join(declared));
            self.report(*error(Code::Signature, span.clone(), "the function does not return what it declares", label));
        }
    }
}

fn argument_from(
    attributes: &[super::attribute::Named<'_>],
    locations: &Locations<'_>,
    id: LocationId,
) -> Parse<Argument> {
    let mut argument = Argument { name: dotted(&locations.table[id].scope), ..Argument::default() };
    for attribute in attributes {
        match (attribute.name, &attribute.value) {
            ("tf.aliasing_output", &Attribute::Integer(result)) if result >= 0 => {
                argument.alias = Some(result as usize);
            }
            ("tf.aliasing_output", _) => {
                let label = "expected the number of a result";
                return Err(error(Code::Attribute, attribute.span.clone(), "cannot read `tf.aliasing_output`", label));
            }
            ("jax.buffer_donor", Attribute::Bool(true)) => argument.donated = true,
            _ => {}
        }
    }
    Ok(argument)
}

fn result_from(attributes: &[super::attribute::Named<'_>]) -> ResultInfo {
    let info = attributes.iter().find(|attribute| attribute.name == "jax.result_info");
    match info.map(|attribute| &attribute.value) {
        Some(Attribute::String(path)) => ResultInfo { name: dotted(&unescape(path)) },
        _ => ResultInfo::default(),
    }
}
