func.func @main() -> (tensor<i1>, tensor<i1>, tensor<ui32>, tensor<3xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %true = stablehlo.constant dense<true> : tensor<i1>
  // Or of booleans, and conversion of an even number to a boolean.
  %0:3 = stablehlo.while(%i = %zero, %a = %true, %b = %true) : tensor<i32>, tensor<i1>, tensor<i1>
  cond {
    %limit = stablehlo.constant dense<2> : tensor<i32>
    %more = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %c = stablehlo.add %true, %true : tensor<i1>
    %two = stablehlo.add %one, %one : tensor<i32>
    %d = stablehlo.convert %two : (tensor<i32>) -> tensor<i1>
    stablehlo.return %j, %c, %d : tensor<i32>, tensor<i1>, tensor<i1>
  }
  // A bound that wraps when it is converted.
  %start = stablehlo.constant dense<4294967290> : tensor<ui32>
  %minus = stablehlo.constant dense<-1> : tensor<i64>
  %bound = stablehlo.convert %minus : (tensor<i64>) -> tensor<ui32>
  %1 = stablehlo.while(%i = %start) : tensor<ui32>
  cond {
    %more = stablehlo.compare LT, %i, %bound : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<ui32>
    %j = stablehlo.add %i, %one : tensor<ui32>
    stablehlo.return %j : tensor<ui32>
  }
  // A position whose difference is never negative, since it is unsigned.
  %first = stablehlo.constant dense<0> : tensor<ui32>
  %stack = stablehlo.constant dense<0> : tensor<3xi32>
  %2:2 = stablehlo.while(%i = %first, %s = %stack) : tensor<ui32>, tensor<3xi32>
  cond {
    %limit = stablehlo.constant dense<3> : tensor<ui32>
    %more = stablehlo.compare LT, %i, %limit : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<ui32>
    %two = stablehlo.constant dense<2> : tensor<ui32>
    %three = stablehlo.constant dense<3> : tensor<ui32>
    %none = stablehlo.constant dense<0> : tensor<ui32>
    %difference = stablehlo.subtract %i, %three : tensor<ui32>
    %negative = stablehlo.compare LT, %difference, %none : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %mirrored = stablehlo.subtract %two, %i : tensor<ui32>
    %place = stablehlo.select %negative, %mirrored, %i : tensor<i1>, tensor<ui32>
    %value = stablehlo.convert %i : (tensor<ui32>) -> tensor<i32>
    %row = stablehlo.reshape %value : (tensor<i32>) -> tensor<1xi32>
    %t = stablehlo.dynamic_update_slice %s, %row, %place : (tensor<3xi32>, tensor<1xi32>, tensor<ui32>) -> tensor<3xi32>
    %j = stablehlo.add %i, %one : tensor<ui32>
    stablehlo.return %j, %t : tensor<ui32>, tensor<3xi32>
  }
  return %0#1, %0#2, %1, %2#1 : tensor<i1>, tensor<i1>, tensor<ui32>, tensor<3xi32>
}
//> op2: 2 trips from 0 by 1
//>   0: Counter
//>   1: Carried
//>   2: Carried
//> op13: 5 trips from 4294967290 by 1
//>   0: Counter
//> op19: 3 trips from 0 by 1
//>   0: Counter
//>   1: Carried
//> module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
//>   func.func public @main() -> (tensor<i1>, tensor<i1>, tensor<ui32>, tensor<3xi32>) {
//>     %0 = stablehlo.constant dense<true> : tensor<i1>
//>     %1 = stablehlo.constant dense<true> : tensor<i1>
//>     %2 = stablehlo.constant dense<4294967295> : tensor<ui32>
//>     %3 = stablehlo.constant dense<0> : tensor<3xi32>
//>     %4 = stablehlo.constant dense<0> : tensor<ui32>
//>     %5 = stablehlo.constant dense<0> : tensor<i32>
//>     %6 = stablehlo.reshape %5 : (tensor<i32>) -> tensor<1xi32>
//>     %7 = stablehlo.dynamic_update_slice %3, %6, %4 : (tensor<3xi32>, tensor<1xi32>, tensor<ui32>) -> tensor<3xi32>
//>     %8 = stablehlo.constant dense<1> : tensor<ui32>
//>     %9 = stablehlo.constant dense<1> : tensor<i32>
//>     %10 = stablehlo.reshape %9 : (tensor<i32>) -> tensor<1xi32>
//>     %11 = stablehlo.dynamic_update_slice %7, %10, %8 : (tensor<3xi32>, tensor<1xi32>, tensor<ui32>) -> tensor<3xi32>
//>     %12 = stablehlo.constant dense<2> : tensor<ui32>
//>     %13 = stablehlo.constant dense<2> : tensor<i32>
//>     %14 = stablehlo.reshape %13 : (tensor<i32>) -> tensor<1xi32>
//>     %15 = stablehlo.dynamic_update_slice %11, %14, %12 : (tensor<3xi32>, tensor<1xi32>, tensor<ui32>) -> tensor<3xi32>
//>     return %0, %1, %2, %15 : tensor<i1>, tensor<i1>, tensor<ui32>, tensor<3xi32>
//>   }
//> }
