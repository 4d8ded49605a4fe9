//! Checks that a program is well formed.
