func.func @main() { return }
{-# dialect_resources: {
//> 2:1 error: metadata without an end | expected `#-}`
