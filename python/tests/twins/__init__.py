"""The built-in models once more, in plain JAX.

A twin is a function from settings to a loss: `loss(parameters, state, batch) -> (loss, new_state)`,
where all three are flat dictionaries keyed by the names that follow `params.`, `state.` and `batch.`
in the built-in model. Each file holds the twin of one family and the small settings it is compared at.
"""
