"func.func"() <{function_type = () -> ()}> ({
  "func.return"() : () -> ()
}) : () -> ()
//> 1:1 error: `func.func` needs the attribute `sym_name` | a function without a name
