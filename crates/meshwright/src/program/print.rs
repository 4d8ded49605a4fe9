//! The text form of a program: StableHLO that jaxlib parses and that we import again.
