"builtin.module"() ({
  "func.func"() <{function_type = (tensor<4xi32>) -> tensor<2xi32>, sym_name = "main"}> ({
  ^bb0(%a: tensor<4xi32>):
    %0 = "stablehlo.slice"(%a) <{limit_indices = array<i64: 4>, start_indices = array<i64: 0>, strides = array<i64: 2>}> : (tensor<4xi32>) -> tensor<2xi32> loc("x"("a.py":1:2))
    "func.return"(%0) : (tensor<2xi32>) -> ()
  }) : () -> ()
}) : () -> ()
