//! Control plane: resolves host names and learns what servers greet with
