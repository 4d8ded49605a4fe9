use super::{body_text, ty};
use crate::program::{DType, DTypeKind, Literal, Op, Program, Type};

#[track_caller]
fn check_constant(literal: Literal, expected: &str) {
    let tensor = literal.ty.clone();
    let text = format!("%0 = stablehlo.constant dense<{expected}> : {tensor}");
    let mut program = Program::new("test");
    let body = program.body;
    program.add_op_with_types(body, Op::Constant(Box::new(literal)), &[], &[], [tensor], Program::UNKNOWN_LOCATION);
    assert_eq!(body_text(&program.to_string()), text);
}

#[track_caller]
fn check_bytes(text: &str, bytes: &[u8], expected: &str) {
    check_constant(Literal::packed(ty(text), bytes), expected);
}

#[test]
fn splat_constants() {
    let splat = |text: &str, bits: u128| Literal::splat(ty(text), bits);
    check_constant(splat("4xi1", 1), "true");
    check_constant(splat("4xi4", 0xF), "-1");
    check_constant(splat("4xi2", 2), "-2");
    check_constant(splat("4xui4", 0xF), "15");
    check_constant(splat("i64", 1 << 63), "-9223372036854775808");
    check_constant(splat("ui64", u128::from(u64::MAX)), "18446744073709551615");
    check_constant(splat("4xf8E4M3FN", 0x3C), "0x3C");
    check_constant(splat("4xf4E2M1FN", 0xF), "0x0F");
    check_constant(splat("f8E8M0FNU", 0), "0x00");
    check_constant(splat("0x4xf32", 0), "");
    for dtype in DType::all().filter(|dtype| dtype.kind() == DTypeKind::SmallFloat) {
        check_constant(Literal::splat(Type::new(dtype, &[2]), 5), "0x05");
    }
}

#[test]
fn floats_read_back_to_the_same_bits() {
    let number = |text: &str, value: f64| Literal::splat_number(ty(text), value);
    let single = |bits: u128| Literal::splat(ty("4xf32"), bits);
    check_constant(number("4xf32", 1.0), "1.0");
    check_constant(number("4xf32", -0.0), "-0.0");
    check_constant(number("4xf32", 0.1), "0.1");
    check_constant(number("4xf32", 1e-5), "1.0e-05");
    check_constant(number("4xf32", 1e20), "1.0e+20");
    check_constant(number("4xf64", 1.5e-300), "1.5e-300");
    check_constant(number("4xf64", 0.1), "0.1");
    check_constant(number("4xf64", f64::NEG_INFINITY), "0xFFF0000000000000");
    check_constant(number("4xbf16", 0.1), "0.100097656");
    check_constant(number("4xbf16", f64::INFINITY), "0x7F80");
    check_constant(number("4xf16", 65504.0), "65504.0");
    check_constant(Literal::splat(ty("4xf16"), 0xFE01), "0xFE01");
    check_constant(single(0x7F80_0000), "0x7F800000");
    check_constant(single(0xFFC0_0001), "0xFFC00001");
    // Rounded to f64 first, 7.038531e-26 would read back as the number above it.
    check_constant(single(0x15AE_43FD), "0x15AE43FD");
    let complex = (0xFF80_0000 << 32) | u128::from(1.5f32.to_bits());
    check_constant(Literal::splat(ty("4xcomplex<f32>"), complex), "(1.5, 0xFF800000)");
    let complex = (u128::from(0.25f64.to_bits()) << 64) | u128::from(1.5f64.to_bits());
    check_constant(Literal::splat(ty("complex<f64>"), complex), "(1.5, 0.25)");
    check_constant(number("4xcomplex<f32>", 2.0), "(2.0, 0.0)");
    check_constant(number("complex<f64>", -0.5), "(-0.5, 0.0)");
}

#[test]
fn listed_constants() {
    check_bytes("2x2xi8", &[1, 2, 255, 128], "[[1, 2], [-1, -128]]");
    check_bytes("2xi1", &[1, 0], "[true, false]");
    check_bytes("2x1xf8E5M2", &[0x3C, 1], "[[0x3C], [0x01]]");
    check_bytes("2xf16", &[0, 0x3C, 0, 0xC0], "[1.0, -2.0]");
    // Stored element by element, and still a splat.
    check_bytes("2x2xui16", &[7, 0, 7, 0, 7, 0, 7, 0], "7");
    check_bytes("0xi8", &[], "");
    check_bytes("i8", &[3], "3");
}

#[test]
fn large_constants_are_hex() {
    let bytes: Vec<u8> = (0..33).collect();
    let digits = "\"0x000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F20\"";
    check_bytes("33xi8", &bytes, digits);
    check_bytes("33xf8E4M3FN", &bytes, digits);
    let bits: Vec<u8> = (0..40).map(|index| u8::from(index >= 38)).collect();
    check_bytes("40xi1", &bits, &format!("\"0x{}0101\"", "00".repeat(38)));
    check_bytes("40xi4", &bits, &format!("\"0x{}0101\"", "00".repeat(38)));
    let wide: Vec<u8> = (0..1000u16).flat_map(u16::to_le_bytes).collect();
    let digits: String = wide.iter().map(|byte| format!("{byte:02X}")).collect();
    check_bytes("1000xui16", &wide, &format!("\"0x{digits}\""));
}
