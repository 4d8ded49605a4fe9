This is a letter, not a module.
